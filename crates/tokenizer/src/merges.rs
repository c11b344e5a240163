//! The merges of a BPE vocabulary: a hash table from pairs of tokens to the token they make.
//!
//! A file has up to 300,000 of them, as text. Reading is most of the time that a tokenizer takes to load,
//! so the look-ups are spread over threads and the table is filled in a loop of its own, where the
//! processor can wait for many places in memory at once.

use crate::merger::{Join, NONE};
use crate::vocabulary::{Kind, Vocabulary, mix};
use crate::{Error, Result};
use gleed_gguf::Strings;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many merges a thread takes at a time: on a busy machine no thread waits long for a slow one.
const AT_A_TIME: usize = 4096;
/// More threads than this wait for memory, not for each other.
const MOST_THREADS: usize = 4;

/// Appends the bytes of a text as a file writes it.
pub(crate) type Decode = fn(&[u8], &mut Vec<u8>);

/// Two neighbouring tokens, how early they merge, and into what.
#[derive(Clone, Copy)]
struct Merge {
    left: u32,
    right: u32,
    rank: u32,
    id: u32,
}

/// Merges by pair; open addressing, at most three quarters full.
pub(crate) struct Merges {
    slots: Vec<Merge>,
}

impl Merges {
    /// Resolves merges (`left right`, best first) to tokens; `decode` makes bytes of how a part is written. A merge
    /// without a token for a part or for the whole can never be taken and is left out.
    pub(crate) fn read(vocabulary: &Vocabulary, merges: &Strings, decode: Decode) -> Result<Merges> {
        let count = merges.len();
        if u32::try_from(count).is_err() {
            return Err(Error::Vocabulary { key: "tokenizer.ggml.merges", what: "too many merges".into() });
        }
        let mut parts = resolve_all(vocabulary, merges, decode)?;
        parts.sort_unstable_by_key(|&(start, _)| start);
        let empty = Merge { left: NONE, right: NONE, rank: 0, id: NONE };
        let mut table = Merges { slots: vec![empty; (count + count / 3 + 1).next_power_of_two()] };
        for merge in parts.into_iter().flat_map(|(_, part)| part) {
            table.insert(merge);
        }
        Ok(table)
    }

    /// Adds a merge; of two for the same pair the earlier one counts.
    fn insert(&mut self, merge: Merge) {
        let slot = self.slot(merge.left, merge.right);
        if self.slots[slot].id == NONE {
            self.slots[slot] = merge;
        }
    }

    /// What two neighbours make.
    #[inline]
    pub(crate) fn find(&self, left: u32, right: u32) -> Option<Join> {
        let merge = self.slots[self.slot(left, right)];
        (merge.id != NONE).then_some(Join { priority: merge.rank, id: merge.id })
    }

    #[inline]
    fn slot(&self, left: u32, right: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(u64::from(left) << 32 | u64::from(right)) as usize & mask;
        loop {
            let merge = &self.slots[at];
            if merge.id == NONE || (merge.left == left && merge.right == right) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// Parts of the merges with the rank at which each starts, in any order.
type Parts = Vec<(usize, Vec<Merge>)>;

/// Resolves all merges, on several threads when there are many.
fn resolve_all(vocabulary: &Vocabulary, merges: &Strings, decode: Decode) -> Result<Parts> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Parts> {
        let mut parts = Vec::new();
        loop {
            let start = next.fetch_add(AT_A_TIME, Ordering::Relaxed);
            if start >= merges.len() {
                return Ok(parts);
            }
            let end = merges.len().min(start + AT_A_TIME);
            parts.push((start, resolve(vocabulary, merges, decode, start..end)?));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MOST_THREADS).min(merges.len() / AT_A_TIME / 4);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut parts = work()?;
        for thread in others {
            match thread.join() {
                Ok(part) => parts.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(parts)
    })
}

/// The merges of these ranks as tokens.
fn resolve(
    vocabulary: &Vocabulary,
    merges: &Strings,
    decode: Decode,
    ranks: std::ops::Range<usize>,
) -> Result<Vec<Merge>> {
    let mut resolved = Vec::with_capacity(ranks.len());
    let mut both = Vec::new();
    let mut last = 0;
    for rank in ranks {
        let merge = merges.get(rank).unwrap_or_default();
        // A part is at least one character, so the space between them is not the first byte.
        let Some(space) = merge.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1) else {
            return Err(Error::Vocabulary {
                key: "tokenizer.ggml.merges",
                what: format!("entry {rank} ({:?}) has no space", String::from_utf8_lossy(merge)),
            });
        };
        both.clear();
        decode(&merge[..space], &mut both);
        let border = both.len();
        decode(&merge[space + 1..], &mut both);
        let (left, right) = both.split_at(border);
        if let (Some(left), Some(right), Some(id)) =
            (vocabulary.find(left), vocabulary.find(right), find_next(vocabulary, &both, last))
        {
            last = id;
            resolved.push(Merge { left, right, rank: rank as u32, id });
        }
    }
    Ok(resolved)
}

/// Merges are listed in the order in which their tokens were made: the next one is easily guessed.
fn find_next(vocabulary: &Vocabulary, bytes: &[u8], last: u32) -> Option<u32> {
    let is_it = |&id: &u32| vocabulary.piece(id) == Some(bytes) && vocabulary.kind(id) == Some(Kind::Normal);
    [last + 1, last].into_iter().find(is_it).or_else(|| vocabulary.find(bytes))
}
