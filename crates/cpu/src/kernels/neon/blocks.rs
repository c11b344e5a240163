//! Linear layers in `q8` arithmetic over many rows: panels of weights times blocks of sixteen rows of activations.
//!
//! 256 columns of a panel are laid out once, in the innermost cache, and meet all rows there: four rows and half
//! of the panel at a time, whose sums, totals and results are 24 registers. The sums of a group are exact
//! integers, as are their totals with the groups' factors; results wait in memory from 256 columns to the next.

use std::arch::aarch64::*;

use super::Neon;
use super::lanes::Register;
use super::layout::{Half, lay_out};
use super::products::{Dots, Matrices, Products, Sums};
use crate::kernels::blocked::{BLOCK_ROWS, Blocked, CELLS, Chunk, Chunks, MultiplyBlocks, of_groups};
use crate::kernels::integer::Panel;
use crate::kernels::simd::Simd;
use crate::kernels::tile::{Line, TILE};

/// Rows of activations that are multiplied at once.
const ROWS: usize = 4;

/// Bits of the low part of a sum of activations.
const LOW_BITS: i32 = 7;

/// Rows below which a single block is better left to the vector unit, and the same for a block after others: the
/// weights are laid out already. By instructions for 32 columns of Q4_K: the vector unit takes 130 for each of its
/// rows, a block of sixteen always 1,070, and laying out 100.
pub const FEWEST_ROWS_OF_DOTS: [usize; 2] = [10, 9];

/// The same with products of matrices, of which a block takes 800.
pub const FEWEST_ROWS_OF_MATRICES: [usize; 2] = [8, 7];

/// Lines of scratch: what is laid out.
pub const SCRATCH_LINES: usize = size_of::<[Half; 2]>() / size_of::<Line>();

/// Multiplies panels with blocks of activations.
pub fn multiply(neon: Neon, matrices: Option<Matrices>, job: MultiplyBlocks) {
    let Some(groups) = job.check() else { return };
    macro_rules! run {
        ($groups:literal, $mins:literal) => {
            match matrices {
                // SAFETY: the proof says that the features are there.
                Some(matrices) => unsafe { with_matrices::<$groups, $mins>(neon, matrices, job) },
                // SAFETY: as above.
                None => unsafe { with_dots::<$groups, $mins>(neon, Dots::new(neon), job) },
            }
        };
    }
    of_groups!(groups, run)
}

#[target_feature(enable = "neon,dotprod")]
fn with_dots<const GROUPS: usize, const MINS: bool>(neon: Neon, products: Dots, job: MultiplyBlocks) {
    all_panels::<_, GROUPS, MINS>(neon, products, job);
}

#[target_feature(enable = "neon,dotprod,i8mm")]
fn with_matrices<const GROUPS: usize, const MINS: bool>(neon: Neon, products: Matrices, job: MultiplyBlocks) {
    all_panels::<_, GROUPS, MINS>(neon, products, job);
}

/// `GROUPS`: those of a cell that have factors, which in blocks of 32 columns are none.
#[inline(always)]
fn all_panels<P: Products, const GROUPS: usize, const MINS: bool>(
    neon: Neon,
    products: P,
    mut job: MultiplyBlocks,
) {
    let scratch = &mut std::mem::take(&mut job.scratch)[..SCRATCH_LINES];
    let halves: &mut [Half; 2] = &mut bytemuck::cast_slice_mut(scratch).as_chunks_mut().0[0];
    job.each(OnePanel::<P, GROUPS, MINS> { neon, products, halves });
}

/// What is done with a panel.
struct OnePanel<'a, P, const GROUPS: usize, const MINS: bool> {
    neon: Neon,
    products: P,
    halves: &'a mut [Half; 2],
}

impl<'a, P: Products, const GROUPS: usize, const MINS: bool> Chunks<'a> for OnePanel<'_, P, GROUPS, MINS> {
    const PANELS: usize = 1;

    #[inline(always)]
    fn prefetch(&self, line: &Line) {
        self.neon.prefetch(line);
    }

    #[inline(always)]
    fn begin(&mut self, panels: &'a [Panel<'a>], first: usize, cells: usize) {
        // SAFETY: a `Neon` value says that the features are there.
        unsafe { lay_out(self.neon, self.products, &panels[0], first, cells, self.halves) };
    }

    #[inline(always)]
    fn multiply(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], _stride: usize) {
        let out = out[block * BLOCK_ROWS..][..BLOCK_ROWS].as_chunks_mut().0;
        for (out, row) in out.iter_mut().zip((0..).step_by(ROWS)) {
            for (h, half) in self.halves.iter().enumerate() {
                let Chunk { x, index, cells } = chunk;
                let part =
                    Part { neon: self.neon, products: self.products, half, x, block, row, chunk: index };
                let before = if index == 0 { part.zeros() } else { part.load(out, h) };
                let results = if GROUPS == 0 {
                    part.cells::<MINS>(cells, before)
                } else {
                    part.super_block::<GROUPS, MINS>(before)
                };
                part.store(results, out, h);
            }
        }
    }
}

/// Eight rows of weights and four of activations, of 256 columns.
struct Part<'a, P> {
    neon: Neon,
    products: P,
    half: &'a Half,
    x: Blocked<'a>,
    /// Which rows: the block, and from which of its rows on.
    block: usize,
    row: usize,
    /// Which columns.
    chunk: usize,
}

/// Runs instructions that a `Neon` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a part has a `Neon` value; memory is reached by references alone.
        unsafe { $($body)* }
    }};
}

/// The results of a part.
type Results = Sums<float32x4_t>;

impl<P: Products> Part<'_, P> {
    /// Blocks of 32 columns.
    #[inline(always)]
    fn cells<const MINS: bool>(&self, cells: usize, mut results: Results) -> Results {
        let x = self.x.block(self.block);
        let first = self.chunk * CELLS;
        for (cell, lines) in self.half.integers[..cells].iter().enumerate() {
            let integers: &[[[i8; 16]; 2]; BLOCK_ROWS] = bytemuck::cast_ref(&x.integers[first + cell]);
            let rows = &integers.as_chunks::<ROWS>().0[self.row / ROWS];
            let mut sums = self.no_sums();
            for (i, lines) in lines.as_chunks().0.iter().enumerate() {
                self.add_columns(&mut sums, lines, rows.each_ref().map(|row| &row[i]));
            }
            let scales = self.of_rows(&x.scales[first + cell]);
            results = self.add_scaled(results, &self.half.scales[cell], scales, sums);
            if MINS {
                let sums = self.of_rows(&x.scaled_sums[first + cell]);
                let sums = [sums[0], sums[0], sums[1], sums[1], sums[2], sums[2], sums[3], sums[3]];
                results = self.add_products(results, &self.half.mins[cell], sums);
            }
        }
        results
    }

    /// A block of 256 columns.
    #[inline(always)]
    fn super_block<const GROUPS: usize, const MINS: bool>(&self, mut results: Results) -> Results {
        let x = self.x.super_scales(self.block, self.chunk);
        let integers = self.x.super_block(self.block, self.chunk);
        let mut totals = self.no_sums();
        for (cell, lines) in self.half.integers.iter().enumerate() {
            let pass: &[[[[i8; 16]; 2]; 2]; BLOCK_ROWS] = bytemuck::cast_ref(&integers[cell / 2]);
            let rows = &pass.as_chunks::<ROWS>().0[self.row / ROWS];
            let mut sums = self.no_sums();
            for (i, lines) in lines.as_chunks().0.iter().enumerate() {
                self.add_columns(&mut sums, lines, rows.each_ref().map(|row| &row[cell % 2][i]));
                if GROUPS == 2 || i == 1 {
                    let factors = self.neon.load_i32(&self.half.factors[(2 * cell + i) * GROUPS / 2].0);
                    for (i, sum) in sums.iter().enumerate() {
                        totals[i] = proven!(vmlaq_s32(totals[i], *sum, factors[i % 4]));
                    }
                    sums = self.no_sums();
                }
            }
        }
        let scales = self.of_rows(x.scales);
        results = self.add_scaled(results, &self.half.scales[0], scales, totals);
        if MINS {
            let sums = if GROUPS == 1 {
                let rows: &[[i16; 8]; BLOCK_ROWS] = bytemuck::cast_ref(x.pairs_32);
                self.min_sums::<1>(rows.as_chunks().0[self.row / ROWS].each_ref().map(|row| [row, &[0; 8]]))
            } else {
                let rows: &[[[i16; 8]; 2]; BLOCK_ROWS] = bytemuck::cast_ref(x.pairs_16);
                self.min_sums::<2>(rows.as_chunks().0[self.row / ROWS].each_ref().map(|row| row.each_ref()))
            };
            let mut scaled = self.zeros();
            for (i, sum) in sums.into_iter().enumerate() {
                scaled[i] = proven!(vmulq_f32(scales[i / 2], vcvtq_f32_s32(sum)));
            }
            results = self.add_products(results, &self.half.mins[0], scaled);
        }
        results
    }

    /// Σ min factor · sum of activations over all groups, `EIGHTS` times eight. The sums have up to thirteen bits,
    /// and go into two parts of eight.
    #[inline(always)]
    fn min_sums<const EIGHTS: usize>(&self, rows: [[&[i16; 8]; 2]; ROWS]) -> Sums<int32x4_t> {
        let zero = proven!(vdupq_n_s8(0));
        let (mut low, mut high) = ([zero; ROWS], [zero; ROWS]);
        for (r, [a, b]) in rows.into_iter().enumerate() {
            (low[r], high[r]) = proven!(split(int16x8_t::load(a), int16x8_t::load(b)));
        }
        let mut totals = self.add_min_factors::<EIGHTS>(self.no_sums(), high);
        for total in &mut totals {
            *total = proven!(vshlq_n_s32::<LOW_BITS>(*total));
        }
        self.add_min_factors::<EIGHTS>(totals, low)
    }

    #[inline(always)]
    fn add_min_factors<const EIGHTS: usize>(
        &self,
        mut totals: Sums<int32x4_t>,
        rows: [int8x16_t; ROWS],
    ) -> Sums<int32x4_t> {
        let rows = self.products.arrange_rows(rows);
        let [first, second] = &self.half.min_factors;
        self.products.add::<false>(&mut totals, self.neon.load_i32(&first.0), rows);
        if EIGHTS == 2 {
            self.products.add::<true>(&mut totals, self.neon.load_i32(&second.0), rows);
        }
        totals
    }

    /// Sixteen columns.
    #[inline(always)]
    fn add_columns(&self, sums: &mut Sums<int32x4_t>, [first, second]: &[Line; 2], rows: [&[i8; 16]; ROWS]) {
        let [a, b, c, d] = rows;
        let rows = [int8x16_t::load(a), int8x16_t::load(b), int8x16_t::load(c), int8x16_t::load(d)];
        let rows = self.products.arrange_rows(rows);
        self.products.add::<false>(sums, self.neon.load_i32(&first.0), rows);
        self.products.add::<true>(sums, self.neon.load_i32(&second.0), rows);
    }

    /// results += (scale · activation scale) · sums.
    #[inline(always)]
    fn add_scaled(
        &self,
        mut results: Results,
        scales: &Line,
        of_rows: [float32x4_t; 4],
        sums: Sums<int32x4_t>,
    ) -> Results {
        let scales = self.neon.load(bytemuck::cast_ref(&scales.0));
        for (i, sum) in sums.into_iter().enumerate() {
            let factor = proven!(vmulq_f32(scales[i % 4], of_rows[i / 2]));
            results[i] = proven!(vfmaq_f32(results[i], factor, vcvtq_f32_s32(sum)));
        }
        results
    }

    /// results += mins · other numbers.
    #[inline(always)]
    fn add_products(&self, mut results: Results, mins: &Line, others: Results) -> Results {
        let mins = self.neon.load(bytemuck::cast_ref(&mins.0));
        for (i, other) in others.into_iter().enumerate() {
            results[i] = proven!(vfmaq_f32(results[i], mins[i % 4], other));
        }
        results
    }

    /// A number of each of the four rows.
    #[inline(always)]
    fn of_rows(&self, numbers: &[f32; BLOCK_ROWS]) -> [float32x4_t; 4] {
        self.products.of_rows(float32x4_t::load(&numbers.as_chunks().0[self.row / ROWS]))
    }

    #[inline(always)]
    fn no_sums(&self) -> Sums<int32x4_t> {
        proven!([vdupq_n_s32(0); 8])
    }

    #[inline(always)]
    fn zeros(&self) -> Results {
        proven!([vdupq_n_f32(0.0); 8])
    }

    #[inline(always)]
    fn load(&self, out: &[[f32; TILE]; ROWS], h: usize) -> Results {
        let mut rows = [[self.zeros()[0]; 2]; ROWS];
        for (row, out) in rows.iter_mut().zip(out) {
            let [low, high] = &out.as_chunks().0.as_chunks().0[h];
            *row = [float32x4_t::load(low), float32x4_t::load(high)];
        }
        self.products.from_rows(rows)
    }

    #[inline(always)]
    fn store(&self, results: Results, out: &mut [[f32; TILE]; ROWS], h: usize) {
        for (out, [low, high]) in out.iter_mut().zip(self.products.to_rows(results)) {
            let [low_out, high_out] = &mut out.as_chunks_mut().0.as_chunks_mut().0[h];
            low.store(low_out);
            high.store(high_out);
        }
    }
}

/// The low bits of sixteen sums, and what is above them, as bytes.
#[inline]
#[target_feature(enable = "neon")]
fn split(a: int16x8_t, b: int16x8_t) -> (int8x16_t, int8x16_t) {
    let bytes = |a, b| vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
    let low_bits = vdupq_n_s16((1 << LOW_BITS) - 1);
    let low = bytes(vandq_s16(a, low_bits), vandq_s16(b, low_bits));
    (low, bytes(vshrq_n_s16::<LOW_BITS>(a), vshrq_n_s16::<LOW_BITS>(b)))
}
