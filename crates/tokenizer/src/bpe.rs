//! Byte-level BPE: words from the pre-tokeniser, one symbol per byte, merges by rank.

use crate::cache::WordCache;
use crate::merger::{Merger, NONE};
use crate::merges::Merges;
use crate::pretokenizer::{Rule, split};
use crate::vocabulary::Vocabulary;
use crate::{Result, bytes};
use gleed_gguf::Strings;

/// The merges of a byte-level BPE vocabulary.
pub(crate) struct Bpe {
    rule: Rule,
    merges: Merges,
    /// The token of each byte; [`NONE`] where the vocabulary has none.
    bytes: [u32; 256],
}

impl Bpe {
    /// Reads the merges and finds the tokens of the bytes.
    pub(crate) fn new(rule: Rule, vocabulary: &Vocabulary, merges: &Strings) -> Result<Bpe> {
        let merges = Merges::read(vocabulary, merges, bytes::decode_into)?;
        let bytes = std::array::from_fn(|byte| vocabulary.find(&[byte as u8]).unwrap_or(NONE));
        Ok(Bpe { rule, merges, bytes })
    }

    /// How many bytes have no token: text loses them, as it did when the model was trained.
    pub(crate) fn missing_bytes(&self) -> usize {
        self.bytes.iter().filter(|&&id| id == NONE).count()
    }

    /// Appends the tokens of a text without special tokens.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, ids: &mut Vec<u32>) {
        let mut cache = WordCache::for_text(text.len());
        let mut merger = Merger::default();
        split(self.rule.stages, text, &mut |word| {
            let word = word.as_bytes();
            cache.or_encode(word, ids, |ids| self.encode_word(vocabulary, word, &mut merger, ids));
        });
    }

    fn encode_word(&self, vocabulary: &Vocabulary, word: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        if self.rule.ignore_merges
            && let Some(id) = vocabulary.find(word)
        {
            ids.push(id);
            return;
        }
        merger.clear();
        for &byte in word {
            merger.push(1, self.bytes[usize::from(byte)]);
        }
        merger.merge(
            |left, right| self.merges.find(left.id, right.id),
            |symbol| ids.extend(Some(symbol.id).filter(|&id| id != NONE)),
        );
    }
}
