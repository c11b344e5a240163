//! Byte-level BPE: words from the pre-tokeniser, one symbol per byte, merges by rank.

use crate::cache::WordCache;
use crate::merger::{Join, Merger, NONE};
use crate::pretokenizer::{Rule, split};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result, bytes};
use gleed_gguf::Strings;

/// The merges of a byte-level BPE vocabulary.
pub(crate) struct Bpe {
    rule: Rule,
    merges: Merges,
    /// The token of each byte; [`NONE`] where the vocabulary has none.
    bytes: [u32; 256],
    unknown: Option<u32>,
}

impl Bpe {
    /// Resolves the merges (`left right`, in the byte alphabet, best first) to token ids.
    pub(crate) fn new(
        rule: Rule,
        vocabulary: &Vocabulary,
        merges: &Strings,
        unknown: Option<u32>,
    ) -> Result<Bpe> {
        if u32::try_from(merges.len()).is_err() {
            return Err(Error::Vocabulary { key: "tokenizer.ggml.merges", what: "too many merges".into() });
        }
        let mut table = Merges::with_room_for(merges.len());
        let mut both = Vec::new();
        for (rank, merge) in merges.iter().enumerate() {
            // The left part may itself be a space only in files that do not use the byte alphabet.
            let Some(space) = merge.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1) else {
                return Err(Error::Vocabulary {
                    key: "tokenizer.ggml.merges",
                    what: format!("entry {rank} ({:?}) has no space", String::from_utf8_lossy(merge)),
                });
            };
            both.clear();
            bytes::decode_into(&merge[..space], &mut both);
            let border = both.len();
            bytes::decode_into(&merge[space + 1..], &mut both);
            let (left, right) = both.split_at(border);
            // A merge without a token for a part or for the whole can never be taken.
            if let (Some(left), Some(right), Some(id)) =
                (vocabulary.find(left), vocabulary.find(right), vocabulary.find(&both))
            {
                table.insert(Merge { left, right, rank: rank as u32, id });
            }
        }
        let bytes = std::array::from_fn(|byte| vocabulary.find(&[byte as u8]).unwrap_or(NONE));
        Ok(Bpe { rule, merges: table, bytes, unknown })
    }

    /// Whether every byte has a token, so that any text survives encoding and decoding.
    pub(crate) fn covers_all_bytes(&self) -> bool {
        !self.bytes.contains(&NONE)
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
            |symbol| ids.extend(if symbol.id == NONE { self.unknown } else { Some(symbol.id) }),
        );
    }
}

/// Two neighbouring tokens, how early they merge, and into what.
#[derive(Clone, Copy)]
struct Merge {
    left: u32,
    right: u32,
    rank: u32,
    id: u32,
}

/// A hash table from pairs of tokens to merges; open addressing, at most half full.
struct Merges {
    slots: Vec<Merge>,
}

impl Merges {
    fn with_room_for(count: usize) -> Merges {
        let empty = Merge { left: NONE, right: NONE, rank: 0, id: NONE };
        Merges { slots: vec![empty; (count * 2).next_power_of_two().max(2)] }
    }

    /// Adds a merge; of two for the same pair the earlier one counts.
    fn insert(&mut self, merge: Merge) {
        let slot = self.slot(merge.left, merge.right);
        if self.slots[slot].id == NONE {
            self.slots[slot] = merge;
        }
    }

    #[inline]
    fn find(&self, left: u32, right: u32) -> Option<Join> {
        let merge = self.slots[self.slot(left, right)];
        (merge.id != NONE).then_some(Join { priority: merge.rank, id: merge.id })
    }

    #[inline]
    fn slot(&self, left: u32, right: u32) -> usize {
        let key = u64::from(left) << 32 | u64::from(right);
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let merge = &self.slots[at];
            if merge.id == NONE || (merge.left == left && merge.right == right) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}
