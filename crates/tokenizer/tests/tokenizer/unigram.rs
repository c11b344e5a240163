//! A small Unigram vocabulary that SentencePiece trained, and the ids that it gives for texts
//! (`make_unigram_vectors.py`).

use gleed_gguf::{Array, Metadata, Value};
use gleed_tokenizer::{DecodeOptions, Special, Tokenizer};

#[derive(serde::Deserialize)]
struct Vectors {
    tokens: Vec<String>,
    scores: Vec<f32>,
    kinds: Vec<i32>,
    /// In hexadecimal digits.
    charsmap: String,
    texts: Vec<Encoded>,
}

#[derive(serde::Deserialize)]
struct Encoded {
    text: String,
    ids: Vec<u32>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../data/unigram.json")).unwrap()
}

fn charsmap(vectors: &Vectors) -> Vec<u8> {
    let digits = vectors.charsmap.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn metadata(vectors: &Vectors) -> Metadata {
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value: Value| metadata.set(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::Str("t5".to_string()));
    set("tokens", Value::Array(Array::Str(vectors.tokens.iter().collect())));
    set("token_type", Value::Array(Array::I32(vectors.kinds.clone())));
    set("scores", Value::Array(Array::F32(vectors.scores.clone())));
    set("precompiled_charsmap", Value::Array(Array::U8(charsmap(vectors))));
    metadata
}

#[test]
fn texts_are_cut_as_sentencepiece_cuts_them() {
    let vectors = vectors();
    let tokenizer = Tokenizer::from_metadata(&metadata(&vectors)).unwrap();
    assert_eq!(tokenizer.notes(), [""; 0]);
    assert!(vectors.texts.len() > 90);
    for Encoded { text, ids } in &vectors.texts {
        assert_eq!(tokenizer.encode(text, Special::Literal), *ids, "{text:?}");
    }
}

#[test]
fn a_prompt_ends_with_the_end_of_text() {
    let vectors = vectors();
    let tokenizer = Tokenizer::from_metadata(&metadata(&vectors)).unwrap();
    let Encoded { text, ids } = &vectors.texts[0];
    let prompt = tokenizer.encode_prompt(text, true, false);
    assert_eq!((tokenizer.adds_bos(), tokenizer.eos()), (false, Some(1)));
    assert_eq!(prompt, [&ids[..], &[1]].concat());
    assert_eq!(tokenizer.decode(ids, DecodeOptions::default()), *text);
}

#[test]
fn a_damaged_table_is_an_error_or_replaces_nothing() {
    let vectors = vectors();
    let whole = charsmap(&vectors);
    let with = |bytes: Vec<u8>| {
        let mut metadata = metadata(&vectors);
        metadata.set("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::U8(bytes)));
        Tokenizer::from_metadata(&metadata)
    };
    for length in [0, 3, 4, whole.len() / 3] {
        let error = with(whole[..length].to_vec()).err().unwrap().to_string();
        assert!(error.contains("precompiled_charsmap"), "{length}: {error}");
    }
    // Every byte wrong in turn: whatever it means then, texts are cut.
    for place in (4..whole.len()).step_by(whole.len() / 400 + 1) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0xff;
        if let Ok(tokenizer) = with(bytes) {
            for Encoded { text, .. } in vectors.texts.iter().take(30) {
                tokenizer.encode(text, Special::Literal);
            }
        }
    }
    let mut no_bytes = metadata(&vectors);
    no_bytes.set("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::I32(vec![1])));
    assert!(Tokenizer::from_metadata(&no_bytes).is_err());
}
