//! The vocabulary: what each token stands for in bytes, of which kind it is, and which token ordinary text
//! finds by its bytes.

use crate::{Error, Result};
use gleed_gguf::Strings;

/// What a token is for, as `tokenizer.ggml.token_type` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A piece of ordinary text.
    Normal,
    /// What stands for text that has no token.
    Unknown,
    /// A mark of structure (`<|im_start|>`): never made from ordinary text.
    Control,
    /// A piece of text that is always kept whole.
    UserDefined,
    /// A place that no text uses.
    Unused,
    /// A single byte, written `<0x0A>`.
    Byte,
}

impl Kind {
    /// The kind that a file's number means; numbers outside the format are ordinary text.
    pub(crate) fn from_number(number: i32) -> Kind {
        match number {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        }
    }
}

/// The tokens by id, and ordinary text's tokens by their bytes.
pub(crate) struct Vocabulary {
    pieces: Strings,
    kinds: Vec<Kind>,
    index: Index,
    longest: usize,
}

impl Vocabulary {
    /// Builds a vocabulary from each token's bytes and kind; `in_text` says which kinds ordinary text can
    /// become.
    pub(crate) fn new(pieces: Strings, kinds: Vec<Kind>, in_text: fn(Kind) -> bool) -> Result<Vocabulary> {
        if u32::try_from(pieces.len()).is_err() || pieces.len() != kinds.len() {
            return Err(Error::Vocabulary {
                key: "tokenizer.ggml.token_type",
                what: format!("{} entries for {} tokens", kinds.len(), pieces.len()),
            });
        }
        let mut index = Index::with_room_for(pieces.len());
        let mut longest = 0;
        for (id, (piece, &kind)) in pieces.iter().zip(&kinds).enumerate() {
            if piece.is_empty() || !in_text(kind) {
                continue;
            }
            longest = longest.max(piece.len());
            // Of two tokens with the same bytes the later one is found, but ordinary text comes first.
            let slot = Slot::of(piece, id as u32);
            let place = index.place(piece, slot, &pieces);
            let present = index.slots[place].id;
            if kind == Kind::Normal || kinds.get(present as usize) != Some(&Kind::Normal) {
                index.slots[place] = slot;
            }
        }
        Ok(Vocabulary { pieces, kinds, index, longest })
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The bytes that a token stands for.
    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        self.pieces.get(id as usize)
    }

    /// The kind of a token.
    pub(crate) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// All tokens: id, bytes and kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], Kind)> {
        self.pieces.iter().zip(&self.kinds).enumerate().map(|(id, (piece, &kind))| (id as u32, piece, kind))
    }

    /// The token that ordinary text of exactly these bytes becomes.
    #[inline]
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest { None } else { self.index.find(bytes, &self.pieces) }
    }

    /// The length in bytes of the longest token that [`Vocabulary::find`] can find.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

/// A hash table from bytes to ids that stores no long bytes of its own; open addressing, at most three
/// quarters full.
struct Index {
    slots: Vec<Slot>,
}

/// One token. The slot holds all its bytes when there are at most eight, as in most of a vocabulary, so
/// that the common look-up reads one place in memory.
#[derive(Clone, Copy)]
struct Slot {
    /// Up to eight bytes, or a hash of more.
    word: u64,
    id: u32,
    /// The length in bytes, 255 for all that are longer.
    length: u8,
}

const EMPTY: u32 = u32::MAX;

impl Slot {
    #[inline]
    fn of(bytes: &[u8], id: u32) -> Slot {
        let word = if bytes.len() <= 8 { word(bytes) } else { hash(bytes) };
        Slot { word, id, length: bytes.len().min(255) as u8 }
    }
}

impl Index {
    fn with_room_for(count: usize) -> Index {
        Index { slots: vec![Slot::of(&[], EMPTY); (count + count / 3 + 1).next_power_of_two()] }
    }

    #[inline]
    fn find(&self, bytes: &[u8], pieces: &Strings) -> Option<u32> {
        let id = self.slots[self.place(bytes, Slot::of(bytes, EMPTY), pieces)].id;
        (id != EMPTY).then_some(id)
    }

    /// The slot that holds these bytes, or the empty one where they belong.
    #[inline]
    fn place(&self, bytes: &[u8], wanted: Slot, pieces: &Strings) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(wanted.word ^ u64::from(wanted.length) << 56) as usize & mask;
        loop {
            let slot = &self.slots[at];
            let same = slot.word == wanted.word
                && slot.length == wanted.length
                && (bytes.len() <= 8 || pieces.get(slot.id as usize) == Some(bytes));
            if same || slot.id == EMPTY {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// A fast hash of short byte strings: eight bytes at a time, one wide multiplication each.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    mix(hash ^ word(tail))
}

/// A number that tells apart all byte strings of the same length up to eight; loads overlap, so that there
/// is no loop.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes {
        [] => 0,
        [_, _, _, _, ..] => {
            let first = bytes.first_chunk().map_or(0, |half| u32::from_le_bytes(*half));
            let last = bytes.last_chunk().map_or(0, |half| u32::from_le_bytes(*half));
            u64::from(first) << 32 | u64::from(last)
        }
        [first, .., last] => u64::from_le_bytes([*first, bytes[bytes.len() / 2], *last, 0, 0, 0, 0, 0]),
        [only] => u64::from(*only),
    }
}

/// Spreads every bit of a number over all bits of the result.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let product = u128::from(number ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_token_is_found_and_nothing_else(
            tokens in prop::collection::btree_set(prop::collection::vec(0u8..3, 1..20), 0..300),
            others in prop::collection::vec(prop::collection::vec(0u8..3, 0..21), 100),
        ) {
            let pieces: Strings = tokens.iter().collect();
            let vocabulary = Vocabulary::new(pieces, vec![Kind::Normal; tokens.len()], |_| true).unwrap();
            for (id, token) in tokens.iter().enumerate() {
                prop_assert_eq!(vocabulary.find(token), Some(id as u32));
            }
            for other in others {
                prop_assert_eq!(vocabulary.find(&other).is_some(), tokens.contains(&other));
            }
        }
    }

    #[test]
    fn ordinary_text_wins_over_tokens_of_the_same_bytes() {
        let pieces: Strings = ["a", "b", "a", "b", "b"].into_iter().collect();
        let kinds = vec![Kind::Normal, Kind::Unused, Kind::UserDefined, Kind::Normal, Kind::Control];
        let vocabulary = Vocabulary::new(pieces, kinds, |kind| kind != Kind::Control).unwrap();
        assert_eq!((vocabulary.find(b"a"), vocabulary.find(b"b")), (Some(0), Some(3)));
    }
}
