//! Hugging Face tokenizers on the same vocabularies, see `make_hf_vectors.py`; and what holds for any text
//! and any tokens.

use crate::common::tokenizer;
use gleed_tokenizer::{DecodeOptions, Special, Tokenizer};
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

fn data(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

static CORPUS: LazyLock<Vec<String>> = LazyLock::new(|| serde_json::from_str(&data("corpus.json")).unwrap());

fn check(name: &str) {
    let tokenizer = tokenizer(name);
    let expected = data(&format!("corpus.{name}.txt"));
    assert_eq!(expected.lines().count(), CORPUS.len());
    for (text, line) in CORPUS.iter().zip(expected.lines()) {
        let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(text, Special::Literal), expected, "{name}: {text:?}");
    }
}

#[test]
fn gpt_2() {
    check("gpt-2");
}

#[test]
fn llama_bpe() {
    check("llama-bpe");
}

#[test]
fn qwen2() {
    check("qwen2");
}

static GPT2: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("gpt-2"));
static QWEN2: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("qwen2"));
static SPM: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("llama-spm"));

/// Ids of which many are parts of characters: single bytes come first in these vocabularies.
fn ids(most: u32) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![0..300u32, 0..most], 0..60)
}

/// Pushes ids one by one and checks every chunk; joined, they must be the whole text.
fn check_stream(tokenizer: &Tokenizer, ids: &[u32], options: DecodeOptions) -> Result<(), TestCaseError> {
    let mut stream = tokenizer.stream(options);
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.finish());
    prop_assert_eq!(text, tokenizer.decode(ids, options));
    Ok(())
}

proptest! {
    #[test]
    fn any_text_survives_byte_level_bpe(text in any::<String>()) {
        for tokenizer in [&GPT2, &QWEN2] {
            let ids = tokenizer.encode(&text, Special::Literal);
            prop_assert_eq!(tokenizer.decode(&ids, DecodeOptions::default()), text.clone());
        }
    }

    /// In SPM `▁` is a space; every other text survives.
    #[test]
    fn any_text_survives_spm(text in any::<String>()) {
        let ids = SPM.encode(&text, Special::Literal);
        prop_assert_eq!(SPM.decode(&ids, DecodeOptions::default()), text.replace('▁', " "));
    }

    #[test]
    fn a_stream_gives_the_same_text(ids in ids(160_000), show_control: bool, continues: bool) {
        for tokenizer in [&GPT2, &QWEN2, &SPM] {
            check_stream(tokenizer, &ids, DecodeOptions { show_control, continues })?;
        }
    }

    /// Long repetitive words take the queue, short ones the scan: pieces of a text far apart are equal.
    #[test]
    fn long_words_are_encoded_like_short_ones(word in "[a-f]{1,4}", count in 20usize..200) {
        let text = word.repeat(count);
        let ids = QWEN2.encode(&text, Special::Literal);
        prop_assert_eq!(QWEN2.decode(&ids, DecodeOptions::default()), text);
    }
}

#[test]
fn a_stream_never_splits_a_character() {
    let text = "Grüße 👩‍💻 世界";
    let ids = GPT2.encode(text, Special::Literal);
    let mut stream = GPT2.stream(DecodeOptions::default());
    let chunks: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert!(chunks.iter().any(String::is_empty), "no token of {chunks:?} is part of a character");
    assert!(!chunks.iter().any(|chunk| chunk.contains('\u{fffd}')), "{chunks:?}");
    assert_eq!(chunks.concat(), text);
    assert_eq!(stream.finish(), "");
    // A character that never comes to its end.
    let mut stream = GPT2.stream(DecodeOptions::default());
    let byte = (0..256).find(|&id| GPT2.token_bytes(id).is_some_and(|bytes| *bytes == *b"\xc3")).unwrap();
    assert_eq!(stream.push(byte), "");
    assert_eq!(stream.push(GPT2.token_id("a").unwrap()), "\u{fffd}a");
    assert_eq!(stream.push(byte), "");
    assert_eq!(stream.finish(), "\u{fffd}");
}

#[test]
fn special_tokens_are_parsed_only_when_asked_for() {
    let text = "<|im_start|>user\nHi<|im_end|>";
    let parsed = QWEN2.encode(text, Special::Parse);
    assert_eq!((parsed[0], *parsed.last().unwrap()), (151_644, 151_645));
    assert_eq!(parsed.len(), 5);
    assert!(QWEN2.encode(text, Special::Literal).iter().all(|&id| !QWEN2.is_control(id)));
    let skipped = QWEN2.decode(&parsed, DecodeOptions::default());
    assert_eq!(skipped, "user\nHi");
    let shown = QWEN2.decode(&parsed, DecodeOptions { show_control: true, continues: false });
    assert_eq!(shown, text);
}

#[test]
fn prompts_get_what_the_model_wants_around_them() {
    let llama3 = tokenizer("llama-bpe");
    assert_eq!(llama3.encode_prompt("Hi", true, true), [128_000, 13_347]);
    assert_eq!(llama3.encode_prompt("Hi", false, true), [13_347]);
    assert_eq!(llama3.encode_prompt("<|begin_of_text|>Hi", true, true), [128_000, 13_347]);
    assert_eq!(SPM.encode_prompt("", true, true), [1]);
    assert_eq!(QWEN2.encode_prompt("Hi", true, true), [13_048]);
    let bert = tokenizer("bert-bge");
    let ids = bert.encode_prompt("Hello wörld", true, true);
    assert_eq!(ids, [101, 7592, 2088, 102]);
    // What follows a special token starts a text, as the model was trained.
    assert_eq!(SPM.encode("<s>Hi</s>Hi", Special::Parse), [1, 6324, 2, 6324]);
}

#[test]
fn spm_spaces_at_the_start() {
    let ids = SPM.encode("Hello", Special::Literal);
    assert_eq!(SPM.decode(&ids, DecodeOptions::default()), "Hello");
    assert_eq!(SPM.decode(&ids, DecodeOptions::CONTINUATION), " Hello");
    assert_eq!(SPM.decode(&[1, ids[0]], DecodeOptions::default()), "Hello");
}

#[test]
fn roles() {
    let llama3 = tokenizer("llama-bpe");
    assert!(llama3.is_end_of_generation(128_009) && llama3.is_end_of_generation(128_001));
    assert!(!llama3.is_end_of_generation(13_347) && !llama3.is_end_of_generation(u32::MAX));
    assert_eq!(llama3.eot(), Some(128_009));
    assert!(llama3.adds_bos() && !llama3.adds_eos());
    assert_eq!(QWEN2.token_id("<|im_end|>"), Some(151_645));
    assert_eq!(QWEN2.token_id(" the"), Some(279));
    assert_eq!(QWEN2.token_text(279).as_deref(), Some(" the"));
    assert_eq!(QWEN2.token_bytes(u32::MAX), None);
    assert_eq!(QWEN2.vocab_size(), 151_936);
    // Phi-3's special tokens swallow the white space behind them.
    let phi3 = tokenizer("phi-3");
    assert_eq!(phi3.encode("<|end|>\n<|user|>", Special::Parse), [32_007, 32_010]);
}

/// Quadratic work on a megabyte would take hours; the limit is wide for slow and busy machines.
#[test]
fn a_megabyte_of_anything_is_encoded_quickly() {
    let start = std::time::Instant::now();
    for tokenizer in [&GPT2, &QWEN2, &SPM] {
        for unit in ["a", " ", "\n", "ab", "中", "<|", "<|im_end|>", "1", "\u{301}"] {
            let text = unit.repeat((1 << 20) / unit.len());
            let ids = tokenizer.encode(&text, Special::Literal);
            assert_eq!(tokenizer.decode(&ids, DecodeOptions::default()), text);
        }
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
