//! WordPiece, as BERT uses it: text is cleaned and lower-cased, cut at white space and punctuation, and
//! each word is covered from the left by the longest tokens. A token that starts a word is stored with a
//! space in front.

use crate::greedy::longest;
use crate::unicode::{Class, class};
use crate::vocabulary::Vocabulary;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

/// Longer words, in characters, are unknown; the limit is part of BERT's tokenizer.
const LONGEST_WORD: usize = 100;

/// What WordPiece encoding needs beside the vocabulary.
pub(crate) struct WordPiece {
    pub unknown: Option<u32>,
    /// Whether letters are lower-cased.
    pub lowercase: bool,
    /// Whether accents are taken off their letters.
    pub strip_accents: bool,
}

impl WordPiece {
    /// Appends the tokens of a text without special tokens.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, ids: &mut Vec<u32>) {
        let normal = self.normalize(text);
        let mut word = String::new();
        for c in normal.chars() {
            let alone = c.is_ascii_punctuation() || class(c).is(Class::PUNCTUATION) || is_ideograph(c);
            if alone || c.is_whitespace() {
                self.encode_word(vocabulary, &word, ids);
                word.clear();
            }
            if alone {
                self.encode_word(vocabulary, c.encode_utf8(&mut [0; 4]), ids);
            } else if !c.is_whitespace() {
                word.push(c);
            }
        }
        self.encode_word(vocabulary, &word, ids);
    }

    fn normalize(&self, text: &str) -> String {
        let clean = text.chars().filter(|&c| c.is_whitespace() || !is_dropped(c));
        let stripped: String = if self.strip_accents {
            clean.nfd().filter(|&c| get_general_category(c) != GeneralCategory::NonspacingMark).collect()
        } else {
            clean.collect()
        };
        if self.lowercase { stripped.to_lowercase() } else { stripped }
    }

    /// Covers a word by the longest tokens, or by the unknown token when that is impossible.
    fn encode_word(&self, vocabulary: &Vocabulary, word: &str, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let start = ids.len();
        if word.chars().count() > LONGEST_WORD || !cover(vocabulary, &format!(" {word}"), ids) {
            ids.truncate(start);
            ids.extend(self.unknown);
        }
    }
}

fn cover(vocabulary: &Vocabulary, word: &str, ids: &mut Vec<u32>) -> bool {
    let mut rest = word.as_bytes();
    while !rest.is_empty() {
        let Some((length, id)) = longest(vocabulary, rest) else { return false };
        ids.push(id);
        rest = &rest[length..];
    }
    true
}

/// Control and unassigned characters leave no trace.
fn is_dropped(c: char) -> bool {
    use GeneralCategory as G;
    c == '\u{fffd}'
        || matches!(get_general_category(c), G::Control | G::Format | G::Unassigned | G::PrivateUse)
}

/// Characters that are words of their own: CJK ideographs, in the blocks that BERT's tokenizers count.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x2a6df | 0x2a700..=0x2b81f
        | 0x2b920..=0x2ceaf | 0x2f800..=0x2fa1f)
}
