//! The tokens of SentencePiece's Unigram in `tokenizer.json`: their scores, and a table of what characters become.

use std::collections::HashSet;

use gleed_gguf::{Array, Metadata, Value};

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

/// The bytes of a text of base64.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let letters = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for group in letters.chunks(4) {
        let mut bits = 0u32;
        for letter in group {
            bits = bits << 6 | u32::from(digit(*letter)?);
        }
        // Two letters are a byte, three are two, four are three; what is left over fills up.
        let count = group.len() * 6 / 8;
        if count == 0 {
            return None;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..1 + count]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::from_base64;

    #[test]
    fn base64_of_the_standard() {
        // RFC 4648, section 10.
        let known = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (text, bytes) in known {
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("/+8=").unwrap(), [0xff, 0xef]);
        assert_eq!([from_base64("Z"), from_base64("Zg!="), from_base64("ä")], [None, None, None]);
    }
}
