//! A small vocabulary of RWKV's kind, and the ids that RWKV's own tokenizer gives for texts (`make_rwkv_vectors.py`).

use gleed_gguf::{Array, Metadata, Value};
use gleed_tokenizer::{DecodeOptions, Special, Tokenizer};

#[derive(serde::Deserialize)]
struct Vectors {
    tokens: Vec<String>,
    texts: Vec<Encoded>,
}

#[derive(serde::Deserialize)]
struct Encoded {
    text: String,
    ids: Vec<u32>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../data/rwkv.json")).unwrap()
}

/// The first token is the end of a text, the last one fills the vocabulary up.
fn tokenizer(vectors: &Vectors) -> Tokenizer {
    let mut kinds = vec![1; vectors.tokens.len()];
    kinds[0] = 3;
    kinds[vectors.tokens.len() - 1] = 5;
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value: Value| metadata.set(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::Str("rwkv".to_string()));
    set("tokens", Value::Array(Array::Str(vectors.tokens.iter().collect())));
    set("token_type", Value::Array(Array::I32(kinds)));
    set("eos_token_id", Value::U32(0));
    Tokenizer::from_metadata(&metadata).unwrap()
}

#[test]
fn texts_are_cut_as_rwkv_cuts_them() {
    let vectors = vectors();
    let tokenizer = tokenizer(&vectors);
    assert_eq!(tokenizer.notes(), [""; 0]);
    assert!(vectors.texts.len() > 80);
    for Encoded { text, ids } in &vectors.texts {
        assert_eq!(tokenizer.encode(text, Special::Literal), *ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids, DecodeOptions::default()), *text);
    }
}

#[test]
fn the_end_of_a_text_is_no_text() {
    let vectors = vectors();
    let tokenizer = tokenizer(&vectors);
    assert_eq!((tokenizer.adds_bos(), tokenizer.eos()), (false, Some(0)));
    assert_eq!(tokenizer.encode("<s>", Special::Parse), [0]);
    assert!(!tokenizer.encode("<s>", Special::Literal).contains(&0));
    assert!(tokenizer.is_end_of_generation(0));
}
