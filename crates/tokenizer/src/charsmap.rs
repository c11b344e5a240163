//! The table by which SentencePiece normalises text before it is cut: which beginnings of a text are replaced by what.
//!
//! `tokenizer.ggml.precompiled_charsmap` is the length of a trie in bytes, the trie, and then the replacements, each of
//! which ends with a zero. The trie is a double array of 32-bit words: a word has the byte that leads to it in its
//! lowest bits, whether a replacement ends here, and how far away its children are, by exclusive or.

use crate::{Error, Result};

/// The table. One that is damaged replaces less than it should, and never fails.
#[derive(Debug, Default)]
pub(crate) struct CharsMap {
    trie: Vec<u32>,
    replacements: Vec<u8>,
}

pub(crate) const KEY: &str = "tokenizer.ggml.precompiled_charsmap";

impl CharsMap {
    pub(crate) fn new(bytes: &[u8]) -> Result<CharsMap> {
        let cut = || -> Option<(&[u8], &[u8])> {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        };
        let Some((trie, replacements)) = cut().filter(|_| !bytes.is_empty()) else {
            return Err(Error::Vocabulary { key: KEY, what: format!("{} bytes are no table", bytes.len()) });
        };
        let trie = trie.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(CharsMap { trie, replacements: replacements.to_vec() })
    }

    /// What the longest beginning of a text that has a replacement is replaced by, and how long it is.
    pub(crate) fn replace(&self, text: &str) -> Option<(&str, usize)> {
        let mut place = offset(*self.trie.first()?);
        let mut longest = None;
        for (index, byte) in text.bytes().enumerate() {
            place ^= u32::from(byte);
            let Some(&word) = self.trie.get(place as usize) else { break };
            // A word that holds a replacement's place has the highest bit, which no byte has.
            if byte == 0 || word & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            place ^= offset(word);
            if word >> 8 & 1 == 1
                && let Some(replacement) =
                    self.trie.get(place as usize).and_then(|at| self.text(at << 1 >> 1))
                && text.is_char_boundary(index + 1)
            {
                longest = Some((replacement, index + 1));
            }
        }
        longest
    }

    /// The replacement that begins at a place.
    fn text(&self, at: u32) -> Option<&str> {
        let rest = self.replacements.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// How far the children of a word are away.
fn offset(word: u32) -> u32 {
    (word >> 10) << ((word & 1 << 9) >> 6)
}
