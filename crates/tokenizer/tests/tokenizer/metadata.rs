//! Small vocabularies made here: what files may leave out, contradict or get wrong.

use gleed_gguf::{Array, Metadata, Value};
use gleed_tokenizer::{DecodeOptions, Special, Tokenizer};
use proptest::prelude::*;

fn strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Value {
    Value::Array(Array::Str(strings.into_iter().collect()))
}

fn metadata(model: &str, tokens: &[&str], kinds: &[i32]) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.set("tokenizer.ggml.model", Value::Str(model.into()));
    metadata.set("tokenizer.ggml.tokens", strings(tokens));
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds.to_vec())));
    metadata
}

/// Tokens: a b c, ab, bc, abc, a control and a user-defined token.
fn bpe() -> Metadata {
    let tokens = ["a", "b", "c", "ab", "bc", "abc", "<|end|>", "<keep>", "Ġ"];
    let mut metadata = metadata("gpt2", &tokens, &[1, 1, 1, 1, 1, 1, 3, 4, 1]);
    metadata.set("tokenizer.ggml.pre", Value::Str("gpt-2".into()));
    metadata.set("tokenizer.ggml.merges", strings(["b c", "a b", "ab c"]));
    metadata
}

fn spm() -> Metadata {
    let tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "▁", "a", "b", "▁a", "ab", "▁▁"];
    let mut metadata = metadata("llama", &tokens, &[2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1]);
    let scores = vec![0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -5.0, -4.0, -0.5];
    metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata
}

fn error(metadata: &Metadata) -> String {
    match Tokenizer::from_metadata(metadata) {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn merges_go_by_rank() {
    let tokenizer = Tokenizer::from_metadata(&bpe()).unwrap();
    // "b c" comes before "a b", and "a bc" is not a merge.
    assert_eq!(tokenizer.encode("abc", Special::Literal), [0, 4]);
    assert_eq!(tokenizer.encode("abab", Special::Literal), [3, 3]);
    assert_eq!(tokenizer.encode("<keep><|end|>a", Special::Parse), [7, 6, 0]);
    assert_eq!(tokenizer.encode("<keep>ab", Special::Literal), [7, 3]);
    assert!(tokenizer.is_end_of_generation(6) && tokenizer.is_control(6) && !tokenizer.is_control(7));
    assert_eq!(tokenizer.missing_bytes(), 252);
    assert_eq!(tokenizer.notes(), [""; 0]);
    assert_eq!(tokenizer.encode("aéb", Special::Literal), [0, 1]);
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.pre", Value::Str("llama-bpe".into()));
    let whole = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(whole.encode("abc", Special::Literal), [5], "a word that is a token wins over the merges");
}

#[test]
fn scores_and_bytes() {
    let tokenizer = Tokenizer::from_metadata(&spm()).unwrap();
    assert_eq!(tokenizer.encode_prompt("ab", true, true), [1, 5, 9], "ab scores higher than ▁a");
    assert_eq!(tokenizer.encode("  a", Special::Literal), [10, 8]);
    assert_eq!(tokenizer.encode("a\né", Special::Literal), [8, 3, 4, 0], "a byte without token is unknown");
    assert_eq!(tokenizer.decode(&[1, 8, 3, 7], DecodeOptions::default()), "a\nb");
    let mut metadata = spm();
    metadata.set("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(false));
    metadata.set("tokenizer.ggml.add_eos_token", Value::Bool(true));
    let plain = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(plain.encode_prompt("ab", true, true), [9, 2]);
    assert_eq!(plain.decode(&[8], DecodeOptions::default()), " a");
    metadata.set("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(true));
    let trimmed = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(trimmed.encode("  a   b ", Special::Literal), trimmed.encode("a b", Special::Literal));
}

#[test]
fn word_pieces() {
    let tokens = ["[UNK]", "[CLS]", "[SEP]", "▁play", "ing", "▁,", "▁中", "▁e"];
    let mut metadata = metadata("bert", &tokens, &[3, 3, 3, 1, 1, 1, 1, 1]);
    for (key, id) in [("unknown", 0), ("cls", 1), ("seperator", 2)] {
        metadata.set(format!("tokenizer.ggml.{key}_token_id"), Value::U32(id));
    }
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(tokenizer.encode_prompt("Playing,PLAY\u{7}ing 中é", true, true), [1, 3, 4, 5, 3, 4, 6, 7, 2]);
    assert_eq!(tokenizer.encode("xyz playing", Special::Literal), [0, 3, 4]);
    assert_eq!(tokenizer.encode(&"e".repeat(101), Special::Literal), [0]);
    metadata.set("tokenizer.ggml.normalizer.lowercase", Value::Bool(false));
    let cased = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(cased.encode("Playing", Special::Literal), [0]);
}

#[test]
fn errors_say_what_and_where() {
    assert_eq!(error(&Metadata::default()), "metadata key tokenizer.ggml.model is missing");
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.model", Value::Str("plamo2".into()));
    assert_eq!(
        error(&metadata),
        "tokenizer.ggml.model: unknown tokenizer 'plamo2'; known are gpt2 (byte-level BPE), llama (SentencePiece), bert (WordPiece), t5 (Unigram), gemma4 (BPE over characters), rwkv (RWKV World)"
    );
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.pre", Value::Str("nobody".into()));
    assert!(
        error(&metadata)
            .starts_with("tokenizer.ggml.pre: unknown pre-tokeniser 'nobody'; known are default, gpt-2")
    );
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.merges", strings(["ab"]));
    assert_eq!(error(&metadata), "metadata key tokenizer.ggml.merges: entry 0 (\"ab\") has no space");
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1])));
    assert_eq!(error(&metadata), "metadata key tokenizer.ggml.token_type: 1 entries for 9 tokens");
    let mut metadata = spm();
    metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(vec![])));
    assert_eq!(error(&metadata), "metadata key tokenizer.ggml.scores: 0 entries for 11 tokens");
    let mut metadata = bpe();
    metadata.set("tokenizer.ggml.tokens", Value::U32(1));
    assert_eq!(
        error(&metadata),
        "metadata key tokenizer.ggml.tokens: expected an array of strings, found u32"
    );
}

#[test]
fn what_is_left_open_is_noted() {
    let tokens = ["a", "<|im_end|>", "b", "Ġ"];
    let mut metadata = metadata("gpt2", &tokens, &[1, 1, 1, 1]);
    metadata.set("tokenizer.ggml.merges", strings(["a b"]));
    metadata.set("tokenizer.ggml.eos_token_id", Value::U32(99));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    assert!(!tokenizer.adds_bos() && tokenizer.eos().is_none());
    assert_eq!((tokenizer.eot(), tokenizer.ends_of_generation()), (Some(1), &[1][..]));
    assert_eq!(
        tokenizer.notes(),
        [
            "tokenizer.ggml.eos_token_id is 99, beyond the vocabulary of 4 tokens: ignored",
            "token 1 (<|im_end|>) is marked as ordinary text: taken as a control token",
            "tokenizer.ggml.pre is missing: words are cut by the rule 'default'",
            "a BOS token should start every prompt, but the file names none: none is added",
        ]
    );
}

#[test]
fn harmony_messages_end_without_ending_the_turn() {
    let tokens = ["<|end|>", "<|return|>", "<|call|>", "a"];
    let mut metadata = metadata("gpt2", &tokens, &[3, 3, 3, 1]);
    metadata.set("tokenizer.ggml.pre", Value::Str("gpt-4o".into()));
    metadata.set("tokenizer.ggml.merges", strings([""; 0]));
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(tokenizer.ends_of_generation(), [1, 2]);
    assert_eq!(tokenizer.eot(), Some(1));
}

proptest! {
    /// Whatever a file says, there is an answer or an error, and no panic.
    #[test]
    fn hostile_vocabularies_are_survived(
        model in prop::sample::select(&["gpt2", "llama", "bert"][..]),
        tokens in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..6), -1i32..8), 0..40),
        merges in prop::collection::vec("[ab ]?[ab]{1,2} [ab]{0,2}", 0..20),
        scores in prop::collection::vec(any::<f32>(), 0..40),
        ids in prop::collection::vec(any::<u32>(), 4),
        text in "\\PC{0,20}[ab ]{0,80}",
    ) {
        let mut metadata = Metadata::default();
        metadata.set("tokenizer.ggml.model", Value::Str(model.into()));
        metadata.set("tokenizer.ggml.tokens", strings(tokens.iter().map(|(token, _)| token)));
        metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(tokens.iter().map(|t| t.1).collect())));
        metadata.set("tokenizer.ggml.merges", strings(&merges));
        if scores.len() == tokens.len() {
            metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
        }
        for (name, id) in ["bos", "eos", "eot", "unknown"].iter().zip(&ids) {
            metadata.set(format!("tokenizer.ggml.{name}_token_id"), Value::U32(id % 50));
        }
        if let Ok(tokenizer) = Tokenizer::from_metadata(&metadata) {
            let encoded = tokenizer.encode_prompt(&text, true, true);
            prop_assert!(encoded.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            tokenizer.decode(&encoded, DecodeOptions::default());
            tokenizer.decode(&ids, DecodeOptions::default());
        }
    }
}
