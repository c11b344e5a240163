//! Linear layers in `q8` arithmetic over many rows on AVX2: panels of weights times blocks of sixteen rows of
//! activations.
//!
//! 256 columns of a panel are unpacked once, into the innermost cache, and meet all rows there: eight rows of weights and
//! four of activations at a time. Pairs of products have sixteen bits, and as many of them are added up in sixteen bits
//! as fit there, which is as many as the largest weight allows; then one instruction multiplies them with the factor of
//! their group and makes 32 bits of them. The instruction for pairs takes weights without a sign: where there are
//! negative ones, it gets their magnitudes, and activations with their signs.

use std::arch::x86_64::*;

use super::Avx2;
use crate::kernels::blocked::{BLOCK_ROWS, CELLS, Chunk, Chunks, MultiplyBlocks, WORDS, of_groups};
use crate::kernels::integer::Panel;
use crate::kernels::simd::Simd;
use crate::kernels::tile::{Line, TILE};

/// Rows below which a single block is better left to single rows, and the same for a block after others, for which the
/// weights are unpacked already. Measured: a block of its own takes as long as its sixteen rows, others as ten.
pub const FEWEST_ROWS: [usize; 2] = [16, 10];

/// Lines of scratch: what is laid out.
pub const SCRATCH_LINES: usize = size_of::<Laid>() / size_of::<Line>();

/// Rows of activations that are multiplied together.
const ROWS: usize = 4;

/// The most groups of 256 columns.
const GROUPS_OF_CHUNK: usize = 2 * CELLS;

/// 256 columns of a panel. A line has a word of each of its sixteen rows.
#[derive(Clone, Copy)]
#[repr(C)]
struct Laid {
    /// Four columns to a word.
    integers: [[Line; WORDS]; CELLS],
    /// The same without their signs.
    magnitudes: [[Line; WORDS]; CELLS],
    /// The factor of each group, in both halves of a word.
    factors: [Line; GROUPS_OF_CHUNK],
}

// SAFETY: lines and nothing else; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Laid {}
// SAFETY: as above, without padding, and the type is `Copy` and `repr(C)`.
unsafe impl bytemuck::Pod for Laid {}

/// What the weights of a chunk allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// None is negative or above 16: pairs of a whole group of 32 columns are added in sixteen bits.
    Nibbles,
    /// None is negative or above 32: those of sixteen columns.
    FiveBits,
    /// None is further than 16 from zero.
    SignedNibbles,
    /// None is further than 32 from zero.
    SixBits,
    /// Any bytes: each pair by itself.
    Bytes,
}

impl Weights {
    /// Of weights whose magnitudes are at most this. Activations are at most 127, and an integer of sixteen bits has room
    /// for eight pairs of products with 16, four with 32 and one with 128.
    fn of(largest: u8, negative: bool) -> Weights {
        match (largest, negative) {
            (..=16, false) => Weights::Nibbles,
            (..=32, false) => Weights::FiveBits,
            (..=16, true) => Weights::SignedNibbles,
            (..=32, true) => Weights::SixBits,
            _ => Weights::Bytes,
        }
    }
}

/// Multiplies panels with blocks of activations.
pub fn multiply(unit: Avx2, job: MultiplyBlocks) {
    let Some(groups) = job.check() else { return };
    macro_rules! run {
        ($groups:literal, $mins:literal) => {
            // SAFETY: the proof says that the features are there.
            unsafe { all_panels::<$groups, $mins>(unit, job) }
        };
    }
    of_groups!(groups, run)
}

/// `GROUPS`: those of a cell that have factors, which in blocks of 32 columns are none.
#[target_feature(enable = "avx2,fma,f16c")]
fn all_panels<const GROUPS: usize, const MINS: bool>(unit: Avx2, mut job: MultiplyBlocks) {
    let scratch = &mut std::mem::take(&mut job.scratch)[..SCRATCH_LINES];
    let laid: &mut Laid = &mut bytemuck::cast_slice_mut(scratch)[0];
    job.each(OnePanel::<GROUPS, MINS> { unit, laid, panel: &Panel::EMPTY, weights: Weights::Bytes });
}

/// What is done with a panel.
struct OnePanel<'a, const GROUPS: usize, const MINS: bool> {
    unit: Avx2,
    laid: &'a mut Laid,
    panel: &'a Panel<'a>,
    weights: Weights,
}

impl<'a, const GROUPS: usize, const MINS: bool> Chunks<'a> for OnePanel<'a, GROUPS, MINS> {
    const PANELS: usize = 1;

    #[inline(always)]
    fn prefetch(&self, line: &Line) {
        self.unit.prefetch(line);
    }

    #[inline(always)]
    fn begin(&mut self, panels: &'a [Panel<'a>], first: usize, cells: usize) {
        self.panel = &panels[0];
        // SAFETY: the proof says that the features are there.
        self.weights = unsafe { lay_out::<GROUPS>(self.unit, self.panel, first, cells, self.laid) };
    }

    #[inline(always)]
    fn multiply(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], _stride: usize) {
        for row in (0..BLOCK_ROWS).step_by(ROWS) {
            let out = out[block * BLOCK_ROWS + row..].first_chunk_mut().expect("rows of the block");
            let part = Part { panel: self.panel, laid: self.laid, of: chunk, block, row };
            // SAFETY: the proof says that the features are there.
            unsafe {
                match self.weights {
                    Weights::Nibbles => part.multiply::<GROUPS, MINS, false, 8>(out),
                    Weights::FiveBits => part.multiply::<GROUPS, MINS, false, 4>(out),
                    Weights::SignedNibbles => part.multiply::<GROUPS, MINS, true, 8>(out),
                    Weights::SixBits => part.multiply::<GROUPS, MINS, true, 4>(out),
                    Weights::Bytes => part.multiply::<GROUPS, MINS, true, 1>(out),
                }
            }
        }
    }
}

/// Unpacks some cells, from one on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lay_out<const GROUPS: usize>(
    unit: Avx2,
    panel: &Panel,
    first: usize,
    cells: usize,
    laid: &mut Laid,
) -> Weights {
    let zero = _mm256_setzero_si256();
    let (mut largest, mut smallest) = ([zero; 2], [zero; 2]);
    for cell in 0..cells {
        panel.each_word(
            unit,
            first + cell,
            #[inline(always)]
            |k, word| unit.store_i32(word, &mut laid.integers[cell][k].0),
        );
        for k in 0..WORDS {
            let word = unit.load_i32(&laid.integers[cell][k].0);
            let magnitude = [_mm256_abs_epi8(word[0]), _mm256_abs_epi8(word[1])];
            for half in 0..2 {
                largest[half] = _mm256_max_epu8(largest[half], magnitude[half]);
                smallest[half] = _mm256_min_epi8(smallest[half], word[half]);
            }
            unit.store_i32(magnitude, &mut laid.magnitudes[cell][k].0);
        }
    }
    if GROUPS > 0 {
        let factors = &panel.factors[first * GROUPS..][..cells * GROUPS];
        for (line, factor) in laid.factors.iter_mut().zip(factors) {
            line.0 = factor.map(|factor| factor & 0xffff | factor << 16);
        }
    }
    // SAFETY: a register and 32 bytes are the same bits.
    let bytes = |register: __m256i| unsafe { std::mem::transmute::<__m256i, [u8; 32]>(register) };
    let magnitudes = bytes(_mm256_max_epu8(largest[0], largest[1]));
    let least = bytes(_mm256_min_epi8(smallest[0], smallest[1]));
    let negative = least.into_iter().any(|least| least.cast_signed() < 0);
    Weights::of(magnitudes.into_iter().max().unwrap_or(0), negative)
}

/// Half of the rows of a panel and four rows of activations, of 256 columns.
struct Part<'a> {
    panel: &'a Panel<'a>,
    laid: &'a Laid,
    of: Chunk<'a>,
    /// Which rows: the block, and from which of its rows on.
    block: usize,
    row: usize,
}

/// The integers of a row in 32 columns.
type RowCell = [i32; WORDS];

/// Numbers of eight rows of weights, for each row of activations.
type Results = [__m256; ROWS];
type Totals = [__m256i; ROWS];

impl Part<'_> {
    /// `N`: how many pairs are added up in sixteen bits.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn multiply<const GROUPS: usize, const MINS: bool, const SIGNED: bool, const N: usize>(
        &self,
        out: &mut [[f32; TILE]; ROWS],
    ) {
        for half in 0..2 {
            let mut results = [_mm256_setzero_ps(); ROWS];
            if self.of.index > 0 {
                for r in 0..ROWS {
                    results[r] = floats(&out[r], half);
                }
            }
            if GROUPS == 0 {
                self.cells::<MINS, SIGNED, N>(half, &mut results);
            } else {
                self.super_block::<GROUPS, MINS, SIGNED, N>(half, &mut results);
            }
            for r in 0..ROWS {
                let out = &mut out[r].as_chunks_mut::<8>().0[half];
                // SAFETY: eight floats.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), results[r]) };
            }
        }
    }

    /// What these rows have of what all rows of the block have.
    #[inline(always)]
    fn rows<'x, V>(&self, all: &'x [V; BLOCK_ROWS]) -> &'x [V; ROWS] {
        &all.as_chunks().0[self.row / ROWS]
    }

    /// Blocks of 32 columns.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn cells<const MINS: bool, const SIGNED: bool, const N: usize>(
        &self,
        half: usize,
        results: &mut Results,
    ) {
        let (panel, ones) = (self.panel, _mm256_set1_epi16(1));
        let (x, first) = (self.of.x.block(self.block), self.of.index * CELLS);
        for cell in 0..self.of.cells {
            let integers: &[RowCell; BLOCK_ROWS] = bytemuck::cast_ref(&x.integers[first + cell]);
            let mut totals = [_mm256_setzero_si256(); ROWS];
            self.group::<1, SIGNED, N>([cell, 0, half], self.rows(integers).each_ref(), ones, &mut totals);
            let scale = floats(&panel.scales[first + cell], half);
            let scales = self.rows(&x.scales[first + cell]);
            for r in 0..ROWS {
                let factor = _mm256_mul_ps(scale, _mm256_set1_ps(scales[r]));
                results[r] = _mm256_fmadd_ps(factor, _mm256_cvtepi32_ps(totals[r]), results[r]);
            }
            if MINS {
                let (min, sums) =
                    (floats(&panel.mins[first + cell], half), self.rows(&x.scaled_sums[first + cell]));
                for r in 0..ROWS {
                    results[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(sums[r]), results[r]);
                }
            }
        }
    }

    /// A block of 256 columns.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn super_block<const GROUPS: usize, const MINS: bool, const SIGNED: bool, const N: usize>(
        &self,
        half: usize,
        results: &mut Results,
    ) {
        let (panel, chunk) = (self.panel, self.of.index);
        let x = self.of.x.super_scales(self.block, chunk);
        let integers = self.of.x.super_block(self.block, chunk);
        let mut totals = [_mm256_setzero_si256(); ROWS];
        for (pass, lines) in integers.iter().enumerate() {
            let rows: &[[RowCell; 2]; BLOCK_ROWS] = bytemuck::cast_ref(lines);
            let rows = self.rows(rows);
            for part in 0..2 {
                let cell = 2 * pass + part;
                let rows = rows.each_ref().map(|row| &row[part]);
                for g in 0..GROUPS {
                    let factor = words(&self.laid.factors[cell * GROUPS + g].0, half);
                    self.group::<GROUPS, SIGNED, N>([cell, g, half], rows, factor, &mut totals);
                }
            }
        }
        let (scale, scales) = (floats(&panel.scales[chunk], half), self.rows(x.scales));
        for r in 0..ROWS {
            let factor = _mm256_mul_ps(scale, _mm256_set1_ps(scales[r]));
            results[r] = _mm256_fmadd_ps(factor, _mm256_cvtepi32_ps(totals[r]), results[r]);
        }
        if MINS {
            let pairs: [&[i32]; ROWS] = match GROUPS {
                1 => self.rows(x.pairs_32).each_ref().map(|pairs| &pairs[..]),
                _ => self.rows(x.pairs_16).each_ref().map(|pairs| &pairs[..]),
            };
            let count = CELLS * GROUPS / 2;
            let factors = &panel.min_pairs[chunk * count..][..count];
            let mut sums = [_mm256_setzero_si256(); ROWS];
            for (i, factors) in factors.iter().enumerate() {
                let factors = words(factors, half);
                for r in 0..ROWS {
                    let products = _mm256_madd_epi16(factors, _mm256_set1_epi32(pairs[r][i]));
                    sums[r] = _mm256_add_epi32(sums[r], products);
                }
            }
            let min = floats(&panel.mins[chunk], half);
            for r in 0..ROWS {
                let sum = _mm256_mul_ps(_mm256_set1_ps(scales[r]), _mm256_cvtepi32_ps(sums[r]));
                results[r] = _mm256_fmadd_ps(min, sum, results[r]);
            }
        }
    }

    /// Adds the products of a group of a cell, one of `GROUPS`, with its factor.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn group<const GROUPS: usize, const SIGNED: bool, const N: usize>(
        &self,
        [cell, g, half]: [usize; 3],
        rows: [&RowCell; ROWS],
        factor: __m256i,
        totals: &mut Totals,
    ) {
        let count = WORDS / GROUPS;
        let together = N.min(count);
        for first in (g * count..(g + 1) * count).step_by(together) {
            let mut sums = [_mm256_setzero_si256(); ROWS];
            let columns = self.laid.integers[cell].iter().zip(&self.laid.magnitudes[cell]).enumerate();
            for (k, (weights, magnitudes)) in columns.skip(first).take(together) {
                let weights = words(&weights.0, half);
                let magnitudes = if SIGNED { words(&magnitudes.0, half) } else { weights };
                for r in 0..ROWS {
                    let x = _mm256_set1_epi32(rows[r][k]);
                    let x = if SIGNED { _mm256_sign_epi8(x, weights) } else { x };
                    sums[r] = _mm256_add_epi16(sums[r], _mm256_maddubs_epi16(magnitudes, x));
                }
            }
            for r in 0..ROWS {
                totals[r] = _mm256_add_epi32(totals[r], _mm256_madd_epi16(sums[r], factor));
            }
        }
    }
}

/// Half of sixteen integers.
#[inline]
#[target_feature(enable = "avx2")]
fn words(all: &[i32; TILE], half: usize) -> __m256i {
    let words: &[i32; 8] = &all.as_chunks().0[half];
    // SAFETY: eight integers.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Half of sixteen floats.
#[inline]
#[target_feature(enable = "avx2")]
fn floats(all: &[f32; TILE], half: usize) -> __m256 {
    _mm256_castsi256_ps(words(bytemuck::cast_ref(all), half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_added_in_as_few_bits_as_they_allow() {
        let of = |largest, negative| Weights::of(largest, negative);
        assert_eq!([of(0, false), of(15, false), of(16, false)], [Weights::Nibbles; 3]);
        assert_eq!([of(17, false), of(31, false), of(32, false)], [Weights::FiveBits; 3]);
        assert_eq!([of(8, true), of(16, true)], [Weights::SignedNibbles; 2]);
        assert_eq!([of(17, true), of(32, true)], [Weights::SixBits; 2]);
        assert_eq!([of(33, false), of(33, true), of(128, true)], [Weights::Bytes; 3]);
    }
}
