//! The tokens of WordPiece in `tokenizer.json`: those that begin a word get a space in front, others lose their mark.

use std::collections::BTreeMap;

use gleed_gguf::{Metadata, Value};

use super::bpe::{add, check};
use super::hugging_face::{TokenizerConfig, TokenizerJson, kind, steps};
use super::pieces::{CONTROL, NORMAL, Pieces};
use crate::error::Result;

/// All tokens.
pub fn pieces(
    json: &TokenizerJson,
    vocabulary: &BTreeMap<String, u64>,
    settings: &TokenizerConfig,
    size: usize,
) -> Result<Pieces> {
    let mut pieces = Pieces::unused(size, false);
    for (text, &number) in vocabulary {
        check(json, text, number, size)?;
        pieces.put(number, text.clone(), 0.0, NORMAL);
    }
    add(json, settings, &mut pieces, size)?;
    for (text, _) in pieces.texts.iter_mut().zip(&pieces.kinds).filter(|(_, kind)| **kind != CONTROL) {
        *text = match text.strip_prefix("##") {
            Some(rest) => rest.to_string(),
            None => format!("\u{2581}{text}"),
        };
    }
    Ok(pieces)
}

/// What becomes of letters before a text is cut.
pub fn set_normalizer(metadata: &mut Metadata, json: &TokenizerJson) {
    for step in
        steps(&json.normalizer, "normalizers").into_iter().filter(|step| kind(step) == "BertNormalizer")
    {
        for key in ["lowercase", "strip_accents"] {
            if let Some(flag) = step.get(key).and_then(serde_json::Value::as_bool) {
                metadata.set(format!("tokenizer.ggml.normalizer.{key}"), Value::Bool(flag));
            }
        }
    }
}
