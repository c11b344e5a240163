//! Linear layers in `q8` arithmetic over many rows where there is AVX-512 without a tile unit: panels of weights times
//! blocks of sixteen rows of activations.
//!
//! 256 columns of two panels are unpacked once, into the innermost cache, and meet all rows there, six at a time and
//! the last four of a block: twelve sums and twelve totals stay in registers, every load of weights serves six products
//! and every load of activations two. The instruction multiplies bytes without a sign with bytes that have one: so
//! activations come raised, and what that adds is taken out of the sums before they begin.
//!
//! A group's sum times its factor is one instruction where the sum is known to fit sixteen bits, which it nearly always
//! does, and three otherwise.

use std::arch::x86_64::*;

use super::Avx512;
use crate::kernels::blocked::{
    BLOCK_ROWS, CELLS, Chunk, Chunks, MultiplyBlocks, RAISED_BY, WORDS, of_groups,
};
use crate::kernels::integer::Panel;
use crate::kernels::simd::Simd;
use crate::kernels::tile::{Line, TILE};

/// Rows below which a single block is better left to single rows, and the same for a block after others, for which the
/// weights are unpacked already. Measured: a block of its own takes as long as its sixteen rows, others as ten.
pub const FEWEST_ROWS: [usize; 2] = [16, 10];

/// Lines of scratch: what is laid out of two panels.
pub const SCRATCH_LINES: usize = size_of::<[Laid; PANELS]>() / size_of::<Line>();

/// Panels that are multiplied together.
const PANELS: usize = 2;

/// Rows of activations that are multiplied together, and what is then left of a block.
const ROWS: usize = 6;
const LAST_ROWS: usize = BLOCK_ROWS % ROWS;

/// 256 columns of a panel.
#[derive(Clone, Copy)]
#[repr(C)]
struct Laid {
    /// Four columns of each of sixteen rows to a line.
    integers: [[Line; WORDS]; CELLS],
    /// Where the sums of each group begin: there are up to two in a cell.
    starts: [[Line; 2]; CELLS],
    /// The factors of each group, sixteen bits of a lane.
    factors: [[Line; 2]; CELLS],
}

// SAFETY: lines and nothing else; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Laid {}
// SAFETY: as above, without padding, and the type is `Copy` and `repr(C)`.
unsafe impl bytemuck::Pod for Laid {}

/// Multiplies panels with blocks of activations.
pub fn multiply(unit: Avx512, job: MultiplyBlocks) {
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
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn all_panels<const GROUPS: usize, const MINS: bool>(unit: Avx512, mut job: MultiplyBlocks) {
    let laid: &mut [Laid] = bytemuck::cast_slice_mut(&mut std::mem::take(&mut job.scratch)[..SCRATCH_LINES]);
    job.each(PanelPairs::<GROUPS, MINS> { unit, laid, panels: &[], largest: 0 });
}

/// What is done with two panels.
struct PanelPairs<'a, const GROUPS: usize, const MINS: bool> {
    unit: Avx512,
    laid: &'a mut [Laid],
    panels: &'a [Panel<'a>],
    /// The largest magnitude of what is laid out.
    largest: i32,
}

impl<'a, const GROUPS: usize, const MINS: bool> Chunks<'a> for PanelPairs<'a, GROUPS, MINS> {
    const PANELS: usize = PANELS;

    #[inline(always)]
    fn prefetch(&self, line: &Line) {
        self.unit.prefetch(line);
    }

    #[inline(always)]
    fn begin(&mut self, panels: &'a [Panel<'a>], first: usize, cells: usize) {
        self.panels = panels;
        self.largest = 0;
        for (panel, laid) in panels.iter().zip(&mut *self.laid) {
            // SAFETY: the proof says that the features are there.
            self.largest =
                self.largest.max(unsafe { lay_out::<GROUPS>(self.unit, panel, first, cells, laid) });
        }
    }

    #[inline(always)]
    fn multiply(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], stride: usize) {
        let narrow = GROUPS > 0 && {
            let magnitudes = chunk.x.super_scales(block, chunk.index).magnitudes;
            fits_sixteen_bits(if GROUPS == 1 { magnitudes.of_32 } else { magnitudes.of_16 }, self.largest)
        };
        if narrow {
            self.rows::<true>(chunk, block, out, stride);
        } else {
            self.rows::<false>(chunk, block, out, stride);
        }
    }
}

impl<const GROUPS: usize, const MINS: bool> PanelPairs<'_, GROUPS, MINS> {
    /// All rows of a block; `NARROW`: the sums of groups fit sixteen bits.
    #[inline(always)]
    fn rows<const NARROW: bool>(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], stride: usize) {
        for row in (0..BLOCK_ROWS).step_by(ROWS) {
            let part = Part { unit: self.unit, panels: self.panels, laid: self.laid, of: chunk, block, row };
            match (self.panels.len(), row + ROWS <= BLOCK_ROWS) {
                (PANELS, true) => part.multiply::<PANELS, ROWS, GROUPS, MINS, NARROW>(out, stride),
                (PANELS, false) => part.multiply::<PANELS, LAST_ROWS, GROUPS, MINS, NARROW>(out, stride),
                (_, true) => part.multiply::<1, ROWS, GROUPS, MINS, NARROW>(out, stride),
                (_, false) => part.multiply::<1, LAST_ROWS, GROUPS, MINS, NARROW>(out, stride),
            }
        }
    }
}

/// Whether a group's sum does, whose activations have such a sum of magnitudes, and its weights at most such a one.
fn fits_sixteen_bits(activations: i32, weights: i32) -> bool {
    activations * weights <= i16::MAX.into()
}

/// Unpacks some cells, from one on, and returns the largest magnitude.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn lay_out<const GROUPS: usize>(
    unit: Avx512,
    panel: &Panel,
    first: usize,
    cells: usize,
    laid: &mut Laid,
) -> i32 {
    let mut largest = unit.to_i32(0);
    if GROUPS > 0 {
        let factors = panel.factors[first * GROUPS..][..cells * GROUPS].chunks_exact(GROUPS);
        for (narrow, factors) in laid.factors.iter_mut().zip(factors) {
            for (narrow, factor) in narrow.iter_mut().zip(factors) {
                narrow.0 = factor.map(|factor| factor & 0xffff);
            }
        }
    }
    for (cell, (integers, starts)) in
        laid.integers[..cells].iter_mut().zip(&mut laid.starts[..cells]).enumerate()
    {
        panel.each_word(
            unit,
            first + cell,
            #[inline(always)]
            |k, word| unit.store_i32(word, &mut integers[k].0),
        );
        let by = _mm512_set1_epi8(RAISED_BY as i8);
        let groups = GROUPS.max(1);
        for (start, words) in starts.iter_mut().zip(integers.chunks(WORDS / groups)) {
            let mut raised = unit.to_i32(0);
            for word in words {
                let word = unit.load_i32(&word.0);
                raised = _mm512_dpbusd_epi32(raised, by, word);
                largest = _mm512_max_epu8(largest, _mm512_abs_epi8(word));
            }
            unit.store_i32(_mm512_sub_epi32(unit.to_i32(0), raised), &mut start.0);
        }
    }
    let mut bytes = Line([0; TILE]);
    unit.store_i32(largest, &mut bytes.0);
    bytemuck::bytes_of(&bytes).iter().copied().max().unwrap_or(0).into()
}

/// Some panels and rows of activations, of 256 columns.
struct Part<'a> {
    unit: Avx512,
    panels: &'a [Panel<'a>],
    laid: &'a [Laid],
    of: Chunk<'a>,
    /// Which rows: the block, and from which of its rows on.
    block: usize,
    row: usize,
}

/// Sums of `T` panels and `R` rows.
type Sums<V, const T: usize, const R: usize> = [[V; R]; T];

/// The integers of a row in 32 columns.
type RowCell = [i32; WORDS];

impl Part<'_> {
    #[inline(always)]
    fn multiply<const T: usize, const R: usize, const GROUPS: usize, const MINS: bool, const NARROW: bool>(
        &self,
        out: &mut [[f32; TILE]],
        stride: usize,
    ) {
        let at = self.block * BLOCK_ROWS + self.row;
        let mut results: Sums<__m512, T, R> = [[self.unit.splat(0.0); R]; T];
        if self.of.index > 0 {
            for (t, results) in results.iter_mut().enumerate() {
                let out: &[[f32; TILE]; R] = &out[t * stride + at..].as_chunks().0[0];
                for (result, out) in results.iter_mut().zip(out) {
                    *result = self.unit.load(out);
                }
            }
        }
        let results = match GROUPS {
            0 => self.cells::<T, R, MINS>(results),
            _ => self.super_block::<T, R, GROUPS, MINS, NARROW>(results),
        };
        for (t, results) in results.iter().enumerate() {
            let out: &mut [[f32; TILE]; R] = &mut out[t * stride + at..].as_chunks_mut().0[0];
            for (result, out) in results.iter().zip(out) {
                self.unit.store(*result, out);
            }
        }
    }

    /// What these rows have of what all rows of the block have.
    #[inline(always)]
    fn rows<'x, V, const R: usize>(&self, all: &'x [V; BLOCK_ROWS]) -> &'x [V; R] {
        all[self.row..].first_chunk().expect("so many rows are left")
    }

    /// Blocks of 32 columns.
    #[inline(always)]
    fn cells<const T: usize, const R: usize, const MINS: bool>(
        &self,
        mut results: Sums<__m512, T, R>,
    ) -> Sums<__m512, T, R> {
        let (unit, x, first) = (self.unit, self.of.x.block(self.block), self.of.index * CELLS);
        for cell in 0..self.of.cells {
            let integers: &[RowCell; BLOCK_ROWS] = bytemuck::cast_ref(&x.integers[first + cell]);
            let sums = self.group::<T, R, 1>(cell, 0, self.rows(integers).each_ref());
            let scales: &[f32; R] = self.rows(&x.scales[first + cell]);
            for t in 0..T {
                let scale = unit.load(&self.panels[t].scales[first + cell]);
                for r in 0..R {
                    let factor = unit.mul(scale, unit.splat(scales[r]));
                    results[t][r] = unit.mul_add(factor, unit.to_f32(sums[t][r]), results[t][r]);
                }
            }
            if MINS {
                let sums: &[f32; R] = self.rows(&x.scaled_sums[first + cell]);
                for (results, panel) in results.iter_mut().zip(self.panels) {
                    let min = unit.load(&panel.mins[first + cell]);
                    for (result, sum) in results.iter_mut().zip(sums) {
                        *result = unit.mul_add(min, unit.splat(*sum), *result);
                    }
                }
            }
        }
        results
    }

    /// A block of 256 columns.
    #[inline(always)]
    fn super_block<
        const T: usize,
        const R: usize,
        const GROUPS: usize,
        const MINS: bool,
        const NARROW: bool,
    >(
        &self,
        mut results: Sums<__m512, T, R>,
    ) -> Sums<__m512, T, R> {
        let (unit, panels) = (self.unit, &self.panels[..T]);
        let x = self.of.x.super_scales(self.block, self.of.index);
        let integers = self.of.x.super_block(self.block, self.of.index);
        let groups = CELLS * GROUPS;
        let mut totals = [[unit.to_i32(0); R]; T];
        let mut factors = [&[][..]; T];
        for (factors, panel) in factors.iter_mut().zip(panels) {
            *factors = &panel.factors[self.of.index * groups..][..groups];
        }
        for (pass, lines) in integers.iter().enumerate() {
            let rows: &[[RowCell; 2]; BLOCK_ROWS] = bytemuck::cast_ref(lines);
            let rows: &[[RowCell; 2]; R] = self.rows(rows);
            for half in 0..2 {
                let cell = 2 * pass + half;
                let rows = rows.each_ref().map(|row| &row[half]);
                for g in 0..GROUPS {
                    let sums = self.group::<T, R, GROUPS>(cell, g, rows);
                    for t in 0..T {
                        if NARROW {
                            let factor = unit.load_i32(&self.laid[t].factors[cell][g].0);
                            for r in 0..R {
                                totals[t][r] = unit.mul_add_i16(sums[t][r], factor, totals[t][r]);
                            }
                        } else {
                            let factor = unit.load_i32(&factors[t][cell * GROUPS + g]);
                            for r in 0..R {
                                totals[t][r] = unit.mul_add_i32(sums[t][r], factor, totals[t][r]);
                            }
                        }
                    }
                }
            }
        }
        let scales: &[f32; R] = self.rows(x.scales);
        for t in 0..T {
            let scale = unit.load(&panels[t].scales[self.of.index]);
            for r in 0..R {
                let factor = unit.mul(scale, unit.splat(scales[r]));
                results[t][r] = unit.mul_add(factor, unit.to_f32(totals[t][r]), results[t][r]);
            }
        }
        if MINS {
            let pairs: [&[i32]; R] = match GROUPS {
                1 => self.rows::<_, R>(x.pairs_32).each_ref().map(|pairs| &pairs[..]),
                _ => self.rows::<_, R>(x.pairs_16).each_ref().map(|pairs| &pairs[..]),
            };
            for t in 0..T {
                let factors = &panels[t].min_pairs[self.of.index * groups / 2..][..groups / 2];
                let min = unit.load(&panels[t].mins[self.of.index]);
                for r in 0..R {
                    let mut sum = unit.to_i32(0);
                    for i in 0..groups / 2 {
                        sum = unit.dot2(sum, unit.load_i32(&factors[i]), pairs[r][i]);
                    }
                    let sum = unit.mul(unit.splat(scales[r]), unit.to_f32(sum));
                    results[t][r] = unit.mul_add(min, sum, results[t][r]);
                }
            }
        }
        results
    }

    /// The sums of a group of a cell, one of `GROUPS`.
    #[inline(always)]
    fn group<const T: usize, const R: usize, const GROUPS: usize>(
        &self,
        cell: usize,
        g: usize,
        rows: [&RowCell; R],
    ) -> Sums<__m512i, T, R> {
        let unit = self.unit;
        let mut sums = [[unit.to_i32(0); R]; T];
        for (sums, laid) in sums.iter_mut().zip(self.laid) {
            *sums = [unit.load_i32(&laid.starts[cell][g].0); R];
        }
        for k in g * WORDS / GROUPS..(g + 1) * WORDS / GROUPS {
            let mut weights = [unit.to_i32(0); T];
            for (weights, laid) in weights.iter_mut().zip(self.laid) {
                *weights = unit.load_i32(&laid.integers[cell][k].0);
            }
            for (r, row) in rows.iter().enumerate() {
                let x = unit.to_i32(row[k]);
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    sums[r] = unit.dot4_raised(sums[r], x, weights);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_sixteen_bits_as_long_as_they_fit() {
        // Weights of four bits and six; what 32 and 16 columns have at most, and what they usually have.
        assert!(fits_sixteen_bits(1200, 15) && fits_sixteen_bits(2184, 15) && !fits_sixteen_bits(2185, 15));
        assert!(fits_sixteen_bits(600, 32) && fits_sixteen_bits(1023, 32) && !fits_sixteen_bits(1024, 32));
        assert!(!fits_sixteen_bits(32 * 127, 15) && !fits_sixteen_bits(16 * 127, 128));
        assert!(fits_sixteen_bits(0, 128) && fits_sixteen_bits(16 * 127, 0));
    }
}
