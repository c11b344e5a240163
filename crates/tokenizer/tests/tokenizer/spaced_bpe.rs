//! A small BPE vocabulary over characters, as Gemma 4 has it, and the ids that Hugging Face tokenizers gives for texts
//! (`make_spaced_bpe_vectors.py`).

use gleed_gguf::{Array, Metadata, Value};
use gleed_tokenizer::{DecodeOptions, Special, Tokenizer};

#[derive(serde::Deserialize)]
struct Vectors {
    tokens: Vec<String>,
    kinds: Vec<i32>,
    merges: Vec<String>,
    texts: Vec<Encoded>,
}

#[derive(serde::Deserialize)]
struct Encoded {
    text: String,
    ids: Vec<u32>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../data/spaced_bpe.json")).unwrap()
}

fn metadata(vectors: &Vectors) -> Metadata {
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value: Value| metadata.set(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::Str("gemma4".to_string()));
    set("tokens", Value::Array(Array::Str(vectors.tokens.iter().collect())));
    set("token_type", Value::Array(Array::I32(vectors.kinds.clone())));
    set("merges", Value::Array(Array::Str(vectors.merges.iter().collect())));
    set("eos_token_id", Value::U32(1));
    set("bos_token_id", Value::U32(2));
    metadata
}

#[test]
fn texts_are_cut_as_tokenizers_cuts_them() {
    let vectors = vectors();
    let tokenizer = Tokenizer::from_metadata(&metadata(&vectors)).unwrap();
    assert_eq!(tokenizer.notes(), [""; 0]);
    assert!(vectors.texts.len() > 90);
    for Encoded { text, ids } in &vectors.texts {
        assert_eq!(tokenizer.encode(text, Special::Literal), *ids, "{text:?}");
        // A mark of a space in a text is a space from then on.
        assert_eq!(tokenizer.decode(ids, DecodeOptions::default()), text.replace('▁', " "));
    }
}

#[test]
fn a_prompt_begins_with_bos_whatever_the_file_says() {
    let vectors = vectors();
    let Encoded { text, ids } = &vectors.texts[0];
    for said in [None, Some(true), Some(false)] {
        let mut metadata = metadata(&vectors);
        if let Some(said) = said {
            metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(said));
        }
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(tokenizer.encode_prompt(text, true, false), [&[2], &ids[..]].concat());
        assert_eq!(tokenizer.notes().len(), usize::from(said == Some(false)));
    }
}

#[test]
fn merges_are_needed() {
    let mut without = Metadata::default();
    for (key, value) in metadata(&vectors()).iter().filter(|(key, _)| !key.ends_with("merges")) {
        without.set(key, value.clone());
    }
    let error = Tokenizer::from_metadata(&without).err().unwrap().to_string();
    assert!(error.contains("tokenizer.ggml.merges"), "{error}");
}
