//! A memory of words within one call: text repeats its words, and a repeated word's tokens are already in
//! the output. A slot points into the text and the output, so remembering copies nothing.

use crate::vocabulary::hash;
use std::ops::Range;

/// Texts shorter than this have too few repeated words to pay for the table.
const WORTH_IT: usize = 512;
/// Words longer than this rarely repeat.
const LONGEST: usize = 64;
const MOST_SLOTS: usize = 1 << 15;

/// The words of one text that were last seen, by hash.
pub(crate) struct WordCache<'t> {
    slots: Vec<(&'t [u8], Range<usize>)>,
}

impl<'t> WordCache<'t> {
    /// A table sized for a text of this many bytes.
    pub(crate) fn for_text(length: usize) -> WordCache<'t> {
        let count = if length < WORTH_IT { 0 } else { (length / 8).next_power_of_two().min(MOST_SLOTS) };
        WordCache { slots: vec![(&[], 0..0); count] }
    }

    /// Appends the word's tokens to `ids`: from an earlier place in `ids`, or by `encode`.
    pub(crate) fn or_encode(
        &mut self,
        word: &'t [u8],
        ids: &mut Vec<u32>,
        encode: impl FnOnce(&mut Vec<u32>),
    ) {
        if self.slots.is_empty() || word.len() > LONGEST {
            return encode(ids);
        }
        let slot = hash(word) as usize & (self.slots.len() - 1);
        let (known, place) = &mut self.slots[slot];
        if *known == word {
            ids.extend_from_within(place.clone());
            return;
        }
        let start = ids.len();
        encode(ids);
        (*known, *place) = (word, start..ids.len());
    }
}
