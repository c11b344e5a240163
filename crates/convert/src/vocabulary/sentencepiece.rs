//! The tokens of `tokenizer.model`.

use std::path::Path;

use super::pieces::{BYTE, CONTROL, NORMAL, Pieces, UNKNOWN, UNUSED};
use super::protobuf::{Field, fields};
use crate::error::{Error, Result, malformed};

/// The largest model that is read.
const LARGEST: u64 = 64 << 20;

/// The tokens of a model, in a vocabulary of `size`.
pub fn pieces(path: &Path, size: usize) -> Result<Pieces> {
    let refused = |source: std::io::Error| Error::Io { path: path.to_path_buf(), source };
    let wrong = |what: &str| malformed(&path.display().to_string(), what);
    if std::fs::metadata(path).map_err(refused)?.len() > LARGEST {
        return Err(wrong("is larger than 64 MB: no SentencePiece model is"));
    }
    let bytes = std::fs::read(path).map_err(refused)?;
    let mut pieces = Pieces::unused(size, true);
    let mut number = 0;
    for field in fields(&bytes) {
        match field.map_err(wrong)? {
            // Of the model: a piece.
            (1, Field::Bytes(piece)) => {
                let (text, score, kind) = read(piece).map_err(wrong)?;
                pieces.put(number, text, score, kind);
                number += 1;
            }
            // What trained it: which algorithm.
            (2, Field::Bytes(trainer)) => {
                for field in fields(trainer) {
                    if let (3, Field::Number(algorithm @ (3 | 4))) = field.map_err(wrong)? {
                        let name = if algorithm == 3 { "words" } else { "characters" };
                        return Err(wrong(&format!("is a model of {name}, which is not known")));
                    }
                }
            }
            _ => {}
        }
    }
    if number == 0 {
        return Err(wrong("has no tokens: it is not a SentencePiece model"));
    }
    Ok(pieces)
}

/// One piece: its text, score and kind.
fn read(piece: &[u8]) -> std::result::Result<(String, f32, i32), &'static str> {
    let (mut text, mut score, mut kind) = (String::new(), 0.0, NORMAL);
    for field in fields(piece) {
        match field? {
            (1, Field::Bytes(bytes)) => text = String::from_utf8_lossy(bytes).into_owned(),
            (2, Field::Four(bytes)) => score = f32::from_le_bytes(bytes),
            (3, Field::Number(number)) => {
                kind = match number {
                    2 => UNKNOWN,
                    3 => CONTROL,
                    5 => UNUSED,
                    6 => BYTE,
                    // Those that users define too: what makes them whole is added with the tokenizer's configuration.
                    _ => NORMAL,
                };
            }
            _ => {}
        }
    }
    Ok((text, score, kind))
}
