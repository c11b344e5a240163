//! How weights lie in device memory for matrix units of halves: as each lane of a subgroup reads them.
//!
//! Rows are packed 16 at a time. Of each group of 32 columns a lane has eight neighbouring ones of two rows, which are
//! eight apart: the lane divided by 4 is the first row, what is left says which columns. So the words of both rows are
//! together, then come those of the next lane, and a subgroup reads 256 bytes at once. Integers are in *pairs* of columns,
//! in the lower and the upper half of a word after one shift and one mask.
//!
//! Scales and mins are halves already ([`half_terms`]), those of both rows together. Rows are padded with zeros to whole
//! [`UNIT`]s of groups.

use gleed_gguf::Format;
use gleed_model::arithmetic::{HalfTerms, IntegerRow, half_row, half_terms};
use half::f16;

use super::layout::{GROUP, Layout, Scales};

/// Groups that rows are padded to.
pub(crate) const UNIT: usize = 4;

/// Rows that are packed together: those of a fragment.
pub(crate) const FRAGMENT: usize = 16;

/// What weights are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HalfLayout {
    /// Bits of each number in the low plane: 2, 4 or 8 of an integer, or a half.
    pub low_bits: u32,
    /// Further bits of integers, above those: 0, 1 or 2.
    pub extra_bits: u32,
    /// How much higher than they are integers are stored, so that none is negative.
    pub offset: u32,
    /// What integers are multiplied with; none of halves.
    pub terms: Option<Terms>,
}

/// The scales and mins of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Whether there are mins: a scale and a min are a word then, otherwise two scales.
    pub mins: bool,
    /// Whether both halves of a group have their own.
    pub halves: bool,
}

impl HalfLayout {
    /// The layout that a format is packed to.
    pub fn of(format: Format) -> HalfLayout {
        match Layout::of(format).0 {
            Layout::Integers(integers) => {
                let terms = Terms { mins: integers.scales.mins(), halves: Scales::halves(integers.scales) };
                HalfLayout {
                    low_bits: integers.low_bits,
                    extra_bits: integers.extra_bits,
                    offset: integers.offset,
                    terms: Some(terms),
                }
            }
            _ => HalfLayout { low_bits: 16, extra_bits: 0, offset: 0, terms: None },
        }
    }

    /// Words of a row of `groups` groups in the rest plane: extra bits, terms, and what the row's halves are multiplied
    /// with.
    pub(crate) fn rest_words(self, groups: usize) -> usize {
        let terms = self.terms.map_or(0, |terms| terms.words_of_unit() * groups / UNIT);
        groups * self.extra_bits as usize + terms + 1
    }
}

impl Terms {
    /// Words of the terms of a [`UNIT`] of groups.
    pub(super) fn words_of_unit(self) -> usize {
        let scales = if self.halves { 2 * UNIT } else { UNIT };
        if self.mins { scales } else { scales / 2 }
    }
}

/// How far up in the lower half of a word the bits of a pair are, of the group `group` of those that share the word.
pub(super) fn shift_of_pair(bits: u32, group: usize, pair: usize) -> usize {
    match bits {
        1 => 4 * group + pair,
        2 => 8 * group + 2 * pair,
        // Of four bits, pairs that are multiplied together are eight bits apart: one shift serves both.
        4 => [0, 8, 4, 12][pair],
        8 => 8 * (pair % 2),
        _ => 0,
    }
}

/// Groups whose numbers of `bits` bits share a word, or words that a group's numbers have.
pub(super) fn sharing(bits: u32) -> (usize, usize) {
    match bits {
        1 => (4, 1),
        2 => (2, 1),
        4 => (1, 1),
        8 => (1, 2),
        _ => (1, 4),
    }
}

/// Packs a row of floats: the words of its planes in the order of vectors, and in them of lanes.
pub(super) fn pack_floats(values: &[f32], low: &mut [u32], rest: &mut [u32]) {
    let row = half_row(values);
    for (column, value) in row.values.iter().enumerate() {
        let (lane, pair) = (column % GROUP / 8, column % 8 / 2);
        low[(column / GROUP * 4 + pair) * 4 + lane] |= u32::from(value.to_bits()) << (16 * (column % 2));
    }
    rest[rest.len() - 1] = row.factor.to_bits();
}

impl HalfLayout {
    /// Packs a row of integers likewise.
    pub(super) fn pack_integers(self, row: IntegerRow, low: &mut [u32], rest: &mut [u32]) {
        let layout = self;
        let HalfTerms { scales, mins, factor } = half_terms(row);
        let (rest, last) = rest.split_at_mut(rest.len() - 1);
        last[0] = factor.to_bits();
        let groups = low.len() / layout.low_bits as usize;
        let (extra, terms) = rest.split_at_mut(groups * layout.extra_bits as usize);
        let mask = ((1u32 << layout.low_bits) - 1) as u8;
        let stored = |integer: &i8| (*integer as u8).wrapping_add(layout.offset as u8);
        put_all(low, layout.low_bits, row.integers.iter().map(|integer| stored(integer) & mask));
        if layout.extra_bits > 0 {
            let above = |integer: &i8| stored(integer) >> layout.low_bits;
            put_all(extra, layout.extra_bits, row.integers.iter().map(above));
        }
        let word = |low: f16, high: f16| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
        if mins.is_empty() {
            for (term, pair) in terms.iter_mut().zip(scales.chunks(2)) {
                *term = word(pair[0], pair.get(1).copied().unwrap_or(f16::ZERO));
            }
        } else {
            let both = scales.iter().zip(&mins);
            terms.iter_mut().zip(both).for_each(|(term, (scale, min))| *term = word(*scale, *min));
        }
    }

    /// Puts the words of a row beside those of the other rows of its fragment.
    pub(super) fn interleave(self, row: usize, words: [&[u32]; 2], [low, rest]: [&mut [u32]; 2]) {
        let extra = words[0].len() / self.low_bits as usize * self.extra_bits as usize;
        interleave(row, words[0], 4, tile_of(row, words[0].len(), low));
        let (extra_plane, terms_plane) = tile_of(row, words[1].len(), rest).split_at_mut(FRAGMENT * extra);
        let (extra, terms) = words[1].split_at(extra);
        interleave(row, extra, 4, extra_plane);
        interleave(row, terms, 1, terms_plane);
    }
}

/// Puts the bits of columns into their row's words.
fn put_all(words: &mut [u32], bits: u32, columns: impl Iterator<Item = u8>) {
    match bits {
        1 => put_columns::<1>(words, columns),
        2 => put_columns::<2>(words, columns),
        4 => put_columns::<4>(words, columns),
        _ => put_columns::<8>(words, columns),
    }
}

/// The same for a number of bits that the compiler knows, so that it knows all shifts: this is most of the time that packing
/// takes.
fn put_columns<const BITS: u32>(words: &mut [u32], mut columns: impl Iterator<Item = u8>) {
    let (groups, vectors) = sharing(BITS);
    let apart = shift_of_pair(BITS, 1, 0) - shift_of_pair(BITS, 0, 0);
    for place in 0.. {
        let mut eight = [0; 2];
        for column in 0..8 {
            let Some(value) = columns.next() else {
                assert!(column == 0, "rows of integers are whole lanes");
                return;
            };
            let shift = shift_of_pair(BITS, 0, column / 2) + 16 * (column % 2);
            eight[column / 2 * vectors / 4] |= u32::from(value) << shift;
        }
        let (group, lane) = (place / 4, place % 4);
        for (vector, word) in eight.iter().take(vectors).enumerate() {
            words[(group / groups * vectors + vector) * 4 + lane] |= word << (group % groups * apart);
        }
    }
}

/// The words of a plane that the rows of a row's fragment have.
fn tile_of(row: usize, words: usize, plane: &mut [u32]) -> &mut [u32] {
    &mut plane[row / FRAGMENT * FRAGMENT * words..][..FRAGMENT * words]
}

/// Puts words of a row, as many of which as are `together` belong to the lanes of one vector, beside those of other rows.
fn interleave(row: usize, words: &[u32], together: usize, tile: &mut [u32]) {
    let (first, side) = (row % 8, row % FRAGMENT / 8);
    for (i, word) in words.iter().enumerate() {
        let (vector, lane) = (i / together, i % together);
        tile[((vector * 8 + first) * together + lane) * 2 + side] = *word;
    }
}
