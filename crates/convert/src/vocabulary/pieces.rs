//! The tokens of a vocabulary while it is put together: texts, scores and kinds by number.

use std::path::Path;

use serde_json::{Map, Value};

use super::hugging_face::Added;
use crate::error::Result;
use crate::json;

/// Kinds of tokens, as `tokenizer.ggml.token_type` numbers them.
pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const UNUSED: i32 = 5;
pub const BYTE: i32 = 6;

/// What a space is written as in SentencePiece's tokens.
const SPACE: &str = "\u{2581}";
/// The score of tokens that were added.
pub const ADDED: f32 = -1000.0;

/// The tokens of a vocabulary.
pub struct Pieces {
    pub texts: Vec<String>,
    /// In vocabularies that have them.
    pub scores: Option<Vec<f32>>,
    pub kinds: Vec<i32>,
}

impl Pieces {
    /// `size` places that no token has yet.
    pub fn unused(size: usize, scored: bool) -> Pieces {
        Pieces {
            texts: (0..size).map(|number| format!("[PAD{number}]")).collect(),
            scores: scored.then(|| vec![-10_000.0; size]),
            kinds: vec![UNUSED; size],
        }
    }

    /// Puts a token in its place; one whose number is too large is left out.
    pub fn put(&mut self, number: u64, text: String, score: f32, kind: i32) {
        let Some(place) = usize::try_from(number).ok().filter(|&place| place < self.texts.len()) else {
            return;
        };
        self.texts[place] = text;
        self.kinds[place] = kind;
        if let Some(scores) = &mut self.scores {
            scores[place] = score;
        }
    }

    /// Puts a token that was added to the model's.
    pub fn add(&mut self, added: &Added) {
        let special = added.special || looks_special(&added.content);
        let (text, kind) = match special {
            true => (added.content.clone(), CONTROL),
            false => (added.content.replace(SPACE, " "), USER_DEFINED),
        };
        self.put(added.id, text, ADDED, kind);
    }

    /// Puts a token that was added, as it is written, and of the kind that it is said to be of.
    pub fn add_as_written(&mut self, added: Added) {
        let kind = if added.special { CONTROL } else { USER_DEFINED };
        self.put(added.id, added.content, ADDED, kind);
    }

    /// Adds what stands in `added_tokens.json`.
    pub fn add_file(&mut self, folder: &Path) -> Result<()> {
        let added: Option<Map<String, Value>> = json::read_if_there(&folder.join("added_tokens.json"))?;
        for (text, number) in added.into_iter().flatten() {
            if let Some(number) = number.as_u64() {
                self.put(number, text, ADDED, USER_DEFINED);
            }
        }
        Ok(())
    }
}

/// Whether a token that is not said to be special must be: some models' are not marked.
pub fn looks_special(text: &str) -> bool {
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<｜", "｜>")
        || between("<unused", ">")
}
