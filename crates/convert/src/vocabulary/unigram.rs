//! The tokens of SentencePiece's Unigram in `tokenizer.json`: their scores, and a table of what characters become.

use std::collections::HashSet;

use gleed_gguf::{Array, Metadata, Value};

use super::base64::from_base64;
use super::bpe::{add, check};
use super::hugging_face::{TokenizerConfig, TokenizerJson, Unigram, kind, steps};
use super::pieces::{NORMAL, Pieces, UNKNOWN};
use crate::error::{Result, malformed};

/// All tokens, with their scores.
pub fn pieces(
    json: &TokenizerJson,
    unigram: &Unigram,
    settings: &TokenizerConfig,
    size: usize,
) -> Result<Pieces> {
    let mut pieces = Pieces::unused(size, true);
    add(json, settings, &mut pieces, size)?;
    let added: HashSet<u64> = json.added.iter().map(|added| added.id).collect();
    for (number, (text, score)) in (0..).zip(&unigram.vocab) {
        check(json, text, number, size)?;
        let place = number as usize;
        // Added tokens that are in the table keep their kind and have its score.
        let kind = if added.contains(&number) { pieces.kinds[place] } else { NORMAL };
        let kind = if unigram.unk_id == Some(number) { UNKNOWN } else { kind };
        pieces.put(number, text.clone(), *score as f32, kind);
    }
    Ok(pieces)
}

/// What becomes of a text before it is cut.
pub fn set_normalizer(
    metadata: &mut Metadata,
    json: &TokenizerJson,
    settings: &TokenizerConfig,
) -> Result<()> {
    metadata.set("tokenizer.ggml.add_space_prefix", Value::Bool(json.adds_space()));
    let cleans = settings.others.get("clean_up_tokenization_spaces").and_then(serde_json::Value::as_bool);
    metadata.set("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(cleans.unwrap_or(true)));
    let normalizer = steps(&json.normalizer, "normalizers").into_iter();
    for step in normalizer.filter(|step| kind(step) == "Precompiled") {
        let table = step.get("precompiled_charsmap").and_then(serde_json::Value::as_str).unwrap_or_default();
        let bytes = from_base64(table)
            .ok_or_else(|| malformed(&json.file, "key precompiled_charsmap must be in base64"))?;
        metadata.set("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::U8(bytes)));
    }
    Ok(())
}
