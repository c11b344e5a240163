//! Linear layers in `q8` arithmetic over many rows where one instruction multiplies bytes without a sign with bytes that
//! have one and adds up four of them, but there is no tile unit: panels of weights times blocks of sixteen rows of
//! activations.
//!
//! 256 columns of a panel or two are unpacked once, into the innermost cache, and meet all rows there, as many at a time
//! as there are registers for their sums and totals. Because one side has no sign, activations come raised, and what
//! that adds is taken out of the sums before they begin.
//!
//! A group's sum times its factor is one instruction where the sum is known to fit sixteen bits, which it nearly always
//! does, and three otherwise.

use super::blocked::{BLOCK_ROWS, CELLS, Chunk, Chunks, MultiplyBlocks, RAISED_BY, WORDS, of_groups};
use super::integer::Panel;
use super::simd::Simd;
use super::tile::{Line, TILE};

/// A vector unit with such an instruction.
pub trait Vnni: Copy {
    /// Its sixteen lanes.
    type Lanes: Simd;

    /// Panels that are multiplied together.
    const PANELS: usize;

    /// The lanes.
    fn lanes(self) -> Self::Lanes;
    /// [`all_panels`] with these constants, in a function that is compiled with the unit's instructions.
    fn all_panels<const GROUPS: usize, const MINS: bool>(self, job: MultiplyBlocks);
    /// [`Part::multiply`] for all rows of a block, as many at a time as there are registers for.
    fn each_part<const GROUPS: usize, const MINS: bool, const NARROW: bool>(
        block: Part<Self>,
        out: &mut [[f32; TILE]],
        stride: usize,
    );
    /// Adds each lane's four products of bytes without a sign and bytes that have one.
    fn dot4_raised(self, acc: Words<Self>, activations: Words<Self>, weights: Words<Self>) -> Words<Self>;
    /// Adds each lane's two products of halves.
    fn dot2(self, acc: Words<Self>, a: Words<Self>, b: Words<Self>) -> Words<Self>;
    /// Of each byte without a sign and the magnitude of one with a sign the larger one.
    fn larger_magnitudes(self, largest: Words<Self>, bytes: Words<Self>) -> Words<Self>;
}

/// Sixteen words.
pub type Words<V> = <<V as Vnni>::Lanes as Simd>::I32;
/// Sixteen floats.
type Floats<V> = <<V as Vnni>::Lanes as Simd>::F32;

/// Lines of scratch: what is laid out of the panels that are multiplied together.
pub const fn scratch_lines<V: Vnni>() -> usize {
    V::PANELS * size_of::<Laid>() / size_of::<Line>()
}

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
pub fn multiply<V: Vnni>(unit: V, job: MultiplyBlocks) {
    let Some(groups) = job.check() else { return };
    macro_rules! run {
        ($groups:literal, $mins:literal) => {
            unit.all_panels::<$groups, $mins>(job)
        };
    }
    of_groups!(groups, run)
}

/// `GROUPS`: those of a cell that have factors, which in blocks of 32 columns are none.
#[inline(always)]
pub fn all_panels<V: Vnni, const GROUPS: usize, const MINS: bool>(unit: V, mut job: MultiplyBlocks) {
    let scratch = &mut std::mem::take(&mut job.scratch)[..scratch_lines::<V>()];
    let laid: &mut [Laid] = bytemuck::cast_slice_mut(scratch);
    job.each(LaidPanels::<V, GROUPS, MINS> { unit, laid, panels: &[], largest: 0 });
}

/// What is done with the panels that are multiplied together.
struct LaidPanels<'a, V, const GROUPS: usize, const MINS: bool> {
    unit: V,
    laid: &'a mut [Laid],
    panels: &'a [Panel<'a>],
    /// The largest magnitude of what is laid out.
    largest: i32,
}

impl<'a, V: Vnni, const GROUPS: usize, const MINS: bool> Chunks<'a> for LaidPanels<'a, V, GROUPS, MINS> {
    const PANELS: usize = V::PANELS;

    #[inline(always)]
    fn prefetch(&self, line: &Line) {
        self.unit.lanes().prefetch(line);
    }

    #[inline(always)]
    fn begin(&mut self, panels: &'a [Panel<'a>], first: usize, cells: usize) {
        self.panels = panels;
        self.largest = 0;
        for (panel, laid) in panels.iter().zip(&mut *self.laid) {
            self.largest = self.largest.max(lay_out::<V, GROUPS>(self.unit, panel, first, cells, laid));
        }
    }

    #[inline(always)]
    fn multiply(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], stride: usize) {
        let (unit, panels, laid) = (self.unit, self.panels, &*self.laid);
        let part = Part { unit, panels, laid, of: chunk, block, row: 0 };
        // Known to the compiler, which would otherwise make what is never called.
        if const { GROUPS > 0 } {
            let magnitudes = chunk.x.super_scales(block, chunk.index).magnitudes;
            let activations = if GROUPS == 1 { magnitudes.of_32 } else { magnitudes.of_16 };
            if fits_sixteen_bits(activations, self.largest) {
                return V::each_part::<GROUPS, MINS, true>(part, out, stride);
            }
        }
        V::each_part::<GROUPS, MINS, false>(part, out, stride);
    }
}

/// Whether a group's sum does, whose activations have such a sum of magnitudes, and its weights at most such a one.
fn fits_sixteen_bits(activations: i32, weights: i32) -> bool {
    activations * weights <= i16::MAX.into()
}

/// Unpacks some cells, from one on, and returns the largest magnitude.
#[inline(always)]
fn lay_out<V: Vnni, const GROUPS: usize>(
    unit: V,
    panel: &Panel,
    first: usize,
    cells: usize,
    laid: &mut Laid,
) -> i32 {
    let s = unit.lanes();
    let mut largest = s.to_i32(0);
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
            s,
            first + cell,
            #[inline(always)]
            |k, word| s.store_i32(word, &mut integers[k].0),
        );
        let by = s.to_i32(i32::from_ne_bytes([RAISED_BY; 4]));
        let groups = GROUPS.max(1);
        for (start, words) in starts.iter_mut().zip(integers.chunks(WORDS / groups)) {
            let mut raised = s.to_i32(0);
            for word in words {
                let word = s.load_i32(&word.0);
                raised = unit.dot4_raised(raised, by, word);
                largest = unit.larger_magnitudes(largest, word);
            }
            s.store_i32(s.mul_add_i32(raised, s.to_i32(-1), s.to_i32(0)), &mut start.0);
        }
    }
    let mut bytes = Line([0; TILE]);
    s.store_i32(largest, &mut bytes.0);
    bytemuck::bytes_of(&bytes).iter().copied().max().unwrap_or(0).into()
}

/// Some panels and rows of activations, of 256 columns.
#[derive(Clone, Copy)]
pub struct Part<'a, V> {
    unit: V,
    panels: &'a [Panel<'a>],
    laid: &'a [Laid],
    of: Chunk<'a>,
    /// Which rows: the block, and from which of its rows on.
    block: usize,
    row: usize,
}

/// Sums of `T` panels and `R` rows.
type Sums<N, const T: usize, const R: usize> = [[N; R]; T];

/// The integers of a row in 32 columns.
type RowCell = [i32; WORDS];

impl<V: Vnni> Part<'_, V> {
    /// How many panels there are.
    #[inline(always)]
    pub fn panels(&self) -> usize {
        self.panels.len()
    }

    /// The same from another row on.
    #[inline(always)]
    pub fn with_row(self, row: usize) -> Self {
        Part { row, ..self }
    }

    /// `T` panels and `R` rows.
    #[inline(always)]
    pub fn multiply<
        const T: usize,
        const R: usize,
        const GROUPS: usize,
        const MINS: bool,
        const NARROW: bool,
    >(
        &self,
        out: &mut [[f32; TILE]],
        stride: usize,
    ) {
        let s = self.unit.lanes();
        let at = self.block * BLOCK_ROWS + self.row;
        let mut results: Sums<Floats<V>, T, R> = [[s.splat(0.0); R]; T];
        if self.of.index > 0 {
            for (t, results) in results.iter_mut().enumerate() {
                let out: &[[f32; TILE]; R] = &out[t * stride + at..].as_chunks().0[0];
                for (result, out) in results.iter_mut().zip(out) {
                    *result = s.load(out);
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
                s.store(*result, out);
            }
        }
    }

    /// What these rows have of what all rows of the block have.
    #[inline(always)]
    fn rows<'x, N, const R: usize>(&self, all: &'x [N; BLOCK_ROWS]) -> &'x [N; R] {
        all[self.row..].first_chunk().expect("so many rows are left")
    }

    /// Blocks of 32 columns.
    #[inline(always)]
    fn cells<const T: usize, const R: usize, const MINS: bool>(
        &self,
        mut results: Sums<Floats<V>, T, R>,
    ) -> Sums<Floats<V>, T, R> {
        let (s, x, first) = (self.unit.lanes(), self.of.x.block(self.block), self.of.index * CELLS);
        // All of them cut to one length before the loop: a check within it would keep results in memory.
        let cells = first..first + self.of.cells;
        let (integers, x_scales) = (&x.integers[cells.clone()], &x.scales[cells.clone()]);
        let x_sums = &x.scaled_sums[cells.clone()];
        let (mut scales, mut mins) = ([&[][..]; T], [&[][..]; T]);
        for t in 0..T {
            scales[t] = &self.panels[t].scales[cells.clone()];
            if MINS {
                mins[t] = &self.panels[t].mins[cells.clone()];
            }
        }
        for cell in 0..self.of.cells {
            let rows: &[RowCell; BLOCK_ROWS] = bytemuck::cast_ref(&integers[cell]);
            let sums = self.group::<T, R, 1>(cell, 0, self.rows(rows).each_ref());
            let factors: &[f32; R] = self.rows(&x_scales[cell]);
            for t in 0..T {
                let scale = s.load(&scales[t][cell]);
                for r in 0..R {
                    let factor = s.mul(scale, s.splat(factors[r]));
                    results[t][r] = s.mul_add(factor, s.to_f32(sums[t][r]), results[t][r]);
                }
            }
            if MINS {
                let sums: &[f32; R] = self.rows(&x_sums[cell]);
                for t in 0..T {
                    let min = s.load(&mins[t][cell]);
                    for r in 0..R {
                        results[t][r] = s.mul_add(min, s.splat(sums[r]), results[t][r]);
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
        mut results: Sums<Floats<V>, T, R>,
    ) -> Sums<Floats<V>, T, R> {
        let (unit, s, panels) = (self.unit, self.unit.lanes(), &self.panels[..T]);
        let x = self.of.x.super_scales(self.block, self.of.index);
        let integers = self.of.x.super_block(self.block, self.of.index);
        let groups = CELLS * GROUPS;
        let mut totals = [[s.to_i32(0); R]; T];
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
                            let factor = s.load_i32(&self.laid[t].factors[cell][g].0);
                            for r in 0..R {
                                totals[t][r] = unit.dot2(totals[t][r], sums[t][r], factor);
                            }
                        } else {
                            let factor = s.load_i32(&factors[t][cell * GROUPS + g]);
                            for r in 0..R {
                                totals[t][r] = s.mul_add_i32(sums[t][r], factor, totals[t][r]);
                            }
                        }
                    }
                }
            }
        }
        let scales: &[f32; R] = self.rows(x.scales);
        for t in 0..T {
            let scale = s.load(&panels[t].scales[self.of.index]);
            for r in 0..R {
                let factor = s.mul(scale, s.splat(scales[r]));
                results[t][r] = s.mul_add(factor, s.to_f32(totals[t][r]), results[t][r]);
            }
        }
        if MINS {
            let pairs: [&[i32]; R] = match GROUPS {
                1 => self.rows::<_, R>(x.pairs_32).each_ref().map(|pairs| &pairs[..]),
                _ => self.rows::<_, R>(x.pairs_16).each_ref().map(|pairs| &pairs[..]),
            };
            for t in 0..T {
                let factors = &panels[t].min_pairs[self.of.index * groups / 2..][..groups / 2];
                let min = s.load(&panels[t].mins[self.of.index]);
                for r in 0..R {
                    let mut sum = s.to_i32(0);
                    for i in 0..groups / 2 {
                        sum = unit.dot2(sum, s.load_i32(&factors[i]), s.to_i32(pairs[r][i]));
                    }
                    let sum = s.mul(s.splat(scales[r]), s.to_f32(sum));
                    results[t][r] = s.mul_add(min, sum, results[t][r]);
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
    ) -> Sums<Words<V>, T, R> {
        let (unit, s) = (self.unit, self.unit.lanes());
        let mut sums = [[s.to_i32(0); R]; T];
        for (sums, laid) in sums.iter_mut().zip(self.laid) {
            *sums = [s.load_i32(&laid.starts[cell][g].0); R];
        }
        for k in g * WORDS / GROUPS..(g + 1) * WORDS / GROUPS {
            let mut weights = [s.to_i32(0); T];
            for (weights, laid) in weights.iter_mut().zip(self.laid) {
                *weights = s.load_i32(&laid.integers[cell][k].0);
            }
            for (r, row) in rows.iter().enumerate() {
                let x = s.to_i32(row[k]);
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
