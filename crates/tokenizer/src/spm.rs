//! SentencePiece vocabularies: neighbours merge by the score of the token they form, or by the file's list of merges, and
//! a character that no token stands for becomes its bytes. The files write a space as `▁`; the vocabulary here holds spaces.

use crate::cache::WordCache;
use crate::merger::{Join, Merger, NONE};
use crate::merges::Merges;
use crate::vocabulary::{Kind, Vocabulary};

/// How a file writes a space inside a token; in a text it means a space too.
pub(crate) const ESCAPED_SPACE: char = '▁';

/// What SPM encoding needs beside the vocabulary.
pub(crate) struct Spm {
    /// Merge priority of each token: the highest score is the lowest number.
    priorities: Vec<u32>,
    /// Which neighbours merge, where the file lists them instead.
    pub merges: Option<Merges>,
    /// The token of each byte; [`NONE`] where the vocabulary has none.
    bytes: [u32; 256],
    unknown: Option<u32>,
    /// Which bytes stand before a space inside some token. Where another byte stands before one, no token
    /// reaches across, and the text can be cut there without changing the result.
    before_space: [bool; 256],
    /// Whether a text that starts (or follows a special token) gets a space in front.
    pub adds_space: bool,
    /// Whether runs of spaces count as one and spaces at the ends as none.
    pub removes_extra_spaces: bool,
}

impl Spm {
    pub(crate) fn new(vocabulary: &Vocabulary, scores: &[f32], unknown: Option<u32>) -> Spm {
        let mut bytes = [NONE; 256];
        let mut before_space = [false; 256];
        for (id, piece, kind) in vocabulary.iter() {
            if kind == Kind::Byte
                && let [byte] = piece
            {
                bytes[usize::from(*byte)] = id;
            }
            for pair in piece.windows(2) {
                before_space[usize::from(pair[0])] |= pair[1] == b' ';
            }
        }
        let priorities = (0..vocabulary.len()).map(|id| priority(scores.get(id).copied().unwrap_or(0.0)));
        Spm {
            priorities: priorities.collect(),
            merges: None,
            bytes,
            unknown,
            before_space,
            adds_space: true,
            removes_extra_spaces: false,
        }
    }

    /// Appends the tokens of a text without special tokens; `at_start` when nothing or a special token
    /// stands before it.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, at_start: bool, ids: &mut Vec<u32>) {
        let text = self.normalize(text, at_start);
        let mut cache = WordCache::for_text(text.len());
        let mut merger = Merger::default();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (word, tail) = rest.split_at(self.first_word(rest));
            cache.or_encode(word.as_bytes(), ids, |ids| self.encode_word(vocabulary, word, &mut merger, ids));
            rest = tail;
        }
    }

    /// The text with the spaces that the vocabulary expects.
    fn normalize(&self, text: &str, at_start: bool) -> String {
        let is_space = |c| matches!(c, ' ' | ESCAPED_SPACE);
        let text = if self.removes_extra_spaces { text.trim_matches(is_space) } else { text };
        let mut normal = String::with_capacity(text.len() + 1);
        if self.adds_space && at_start && !text.is_empty() {
            normal.push(' ');
        }
        let mut after_space = false;
        for c in text.chars() {
            match is_space(c) {
                false => normal.push(c),
                true if self.removes_extra_spaces && after_space => {}
                true => normal.push(' '),
            }
            after_space = is_space(c);
        }
        normal
    }

    /// The length in bytes of the text before the first space that no token reaches across.
    fn first_word(&self, text: &str) -> usize {
        let uncrossed = |pair: &[u8]| pair[1] == b' ' && !self.before_space[usize::from(pair[0])];
        text.as_bytes().windows(2).position(uncrossed).map_or(text.len(), |at| at + 1)
    }

    fn encode_word(&self, vocabulary: &Vocabulary, word: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        merger.clear();
        for (at, c) in word.char_indices() {
            let id = vocabulary.find(&word.as_bytes()[at..at + c.len_utf8()]);
            merger.push(c.len_utf8(), id.unwrap_or(NONE));
        }
        let text = |start: u32, length: u32| &word.as_bytes()[start as usize..(start + length) as usize];
        merger.merge(
            |left, right| {
                if let Some(merges) = &self.merges {
                    return merges.find(left.id, right.id);
                }
                let id = vocabulary.find(text(left.start, left.length + right.length))?;
                Some(Join { priority: self.priorities[id as usize], id })
            },
            |symbol| {
                if symbol.id != NONE {
                    ids.push(symbol.id);
                    return;
                }
                for &byte in text(symbol.start, symbol.length) {
                    let id = self.bytes[usize::from(byte)];
                    ids.extend(if id == NONE { self.unknown } else { Some(id) });
                }
            },
        );
    }
}

/// An integer that is lower the higher the score is.
fn priority(score: f32) -> u32 {
    let bits = score.to_bits();
    // Positive floats order like their bits, negative ones the other way round.
    if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn higher_scores_come_first() {
        let scores = [f32::INFINITY, 3.5, 1.0, 0.0, -0.5, -1.0, -31999.0, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|pair| priority(pair[0]) < priority(pair[1])));
    }
}
