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
            let slot = index.slot(piece, hash(piece), &pieces);
            let (_, present) = index.slots[slot];
            if kind == Kind::Normal || kinds.get(present as usize) != Some(&Kind::Normal) {
                index.slots[slot] = ((hash(piece) >> 32) as u32, id as u32);
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

/// A hash table from bytes to ids that stores no bytes of its own: a third of the memory and of the build
/// time of a map with owned keys.
struct Index {
    /// Upper half of the hash and id; open addressing, at most half full.
    slots: Vec<(u32, u32)>,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    fn with_room_for(count: usize) -> Index {
        Index { slots: vec![(0, EMPTY); (count * 2).next_power_of_two().max(2)] }
    }

    fn find(&self, bytes: &[u8], pieces: &Strings) -> Option<u32> {
        let (_, id) = self.slots[self.slot(bytes, hash(bytes), pieces)];
        (id != EMPTY).then_some(id)
    }

    /// The slot that holds these bytes, or the empty one where they belong.
    #[inline]
    fn slot(&self, bytes: &[u8], hash: u64, pieces: &Strings) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (tag, id) = self.slots[at];
            if id == EMPTY || (tag == (hash >> 32) as u32 && pieces.get(id as usize) == Some(bytes)) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// A fast hash of short byte strings: eight bytes at a time, one multiplication each.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = bytes.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        mix(u64::from_le_bytes(last));
    }
    hash ^ (hash >> 29)
}
