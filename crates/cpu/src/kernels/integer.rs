//! Linear layers in `q8` arithmetic: sixteen rows of integer weights at a time, packed so that a lane is
//! a row, times quantised activations.
//!
//! The integers are exact, so their order does not matter; the f32 multiply-add per group goes from
//! group to group within its lane, as `arithmetic::dot_q8` has it.

use gleed_model::arithmetic::{ACTIVATION_BLOCK, LANES};

use super::quantize::{QuantizedRow, row_words};
use super::simd::{Kernel, Simd};

/// Rows of weights in a tile.
pub const TILE: usize = LANES;

/// Columns that are packed at once: four per lane and sixteen steps.
pub const PACK_COLUMNS: usize = 4 * LANES;

/// Turns sixteen rows of words into columns of sixteen: weights (four to a word), scales or mins.
#[derive(Debug)]
pub struct Pack<'a> {
    /// `[TILE][stride]`.
    pub rows: &'a [i32],
    /// Words from row to row, a multiple of sixteen.
    pub stride: usize,
    /// `[words][TILE]`, for a multiple of sixteen words, at most `stride`.
    pub out: &'a mut [[i32; TILE]],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Pack { rows, stride, out } = self;
        assert!(rows.len() >= TILE * stride && out.len().is_multiple_of(LANES) && out.len() <= stride);
        let mut chunks = [&[][..]; TILE];
        for (r, chunks) in chunks.iter_mut().enumerate() {
            *chunks = &rows[r * stride..][..out.len()].as_chunks::<LANES>().0[..out.len() / LANES];
        }
        for (c, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut block = [&[0; LANES]; TILE];
            for (block, chunks) in block.iter_mut().zip(&chunks) {
                *block = &chunks[c];
            }
            s.transpose(block, out);
        }
    }
}

/// A packed panel: some columns of sixteen rows of weights.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    /// Four columns each: `[columns / 4][TILE]`.
    pub integers: &'a [[i32; TILE]],
    /// `[groups][TILE]`.
    pub scales: &'a [[f32; TILE]],
    /// `[groups][TILE]`, or empty.
    pub mins: &'a [[f32; TILE]],
    /// Columns per group: 16 or 32.
    pub group: usize,
}

/// Quantised activations: rows of [`QuantizedRow`], one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Quantized<'a> {
    /// `[rows][row_words(columns)]`.
    pub words: &'a [i32],
    /// Columns per row.
    pub columns: usize,
    /// How many rows.
    pub rows: usize,
}

/// Adds a panel times all rows of activations to the running sums.
#[derive(Debug)]
pub struct Multiply<'a> {
    /// The weights.
    pub panel: Panel<'a>,
    /// The activations.
    pub x: Quantized<'a>,
    /// The panel's first column.
    pub first: usize,
    /// Running sums, one per row of activations.
    pub sums: &'a mut [Running],
}

/// The two running sums of `arithmetic::dot_q8`, for sixteen rows of weights.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    /// Σ scale · products.
    pub products: [f32; TILE],
    /// Σ min · sums.
    pub mins: [f32; TILE],
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match (self.panel.group, self.panel.mins.is_empty()) {
            (32, true) => self.rows::<S, 8, false>(s),
            (32, false) => self.rows::<S, 8, true>(s),
            (16, true) => self.rows::<S, 4, false>(s),
            (16, false) => self.rows::<S, 4, true>(s),
            (group, _) => panic!("groups have 16 or 32 columns, not {group}"),
        }
    }
}

impl Multiply<'_> {
    /// All rows, as many at a time as there are registers for. `WORDS`: words per group.
    #[inline(always)]
    fn rows<S: Simd, const WORDS: usize, const MINS: bool>(mut self, s: S) {
        let mut row = 0;
        let count = self.x.rows;
        if S::WIDE {
            while row + 8 <= count {
                self.block::<S, WORDS, MINS, 8>(s, row);
                row += 8;
            }
            if row + 4 <= count {
                self.block::<S, WORDS, MINS, 4>(s, row);
                row += 4;
            }
        }
        while row + 2 <= count {
            self.block::<S, WORDS, MINS, 2>(s, row);
            row += 2;
        }
        if row < count {
            self.block::<S, WORDS, MINS, 1>(s, row);
        }
    }

    #[inline(always)]
    fn block<S: Simd, const WORDS: usize, const MINS: bool, const R: usize>(&mut self, s: S, row: usize) {
        let Multiply { panel, x, first, ref mut sums } = *self;
        let group = 4 * WORDS;
        let groups = panel.integers.len() / WORDS;
        let integers = &panel.integers.as_chunks::<WORDS>().0[..groups];
        let (scales, mins) = (&panel.scales[..groups], if MINS { &panel.mins[..groups] } else { &[][..] });
        // The panel's part of each row.
        let mut q = [&[][..]; R];
        let (mut x_scales, mut x_sums, mut x_scaled) = ([&[][..]; R], [&[][..]; R], [&[][..]; R]);
        let words = row_words(x.columns);
        for r in 0..R {
            let all = QuantizedRow::new(&x.words[(row + r) * words..][..words], x.columns, group);
            q[r] = &all.q[first / 4..][..groups * WORDS].as_chunks::<WORDS>().0[..groups];
            x_scales[r] = &all.scales[first / ACTIVATION_BLOCK..][..groups * group / ACTIVATION_BLOCK];
            x_sums[r] = &all.sums[first / group..][..groups];
            x_scaled[r] = &all.scaled_sums[first / group..][..groups];
        }
        let sums = &mut sums[row..row + R];
        let mut products = [s.splat(0.0); R];
        let mut offsets = [s.splat(0.0); R];
        for r in 0..R {
            products[r] = s.load(&sums[r].products);
            offsets[r] = s.load(&sums[r].mins);
        }
        for g in 0..groups {
            let mut acc = [s.dot_start(0); R];
            for r in 0..R {
                acc[r] = s.dot_start(x_sums[r][g]);
            }
            for k in 0..WORDS {
                let w = s.weights(&integers[g][k]);
                for r in 0..R {
                    acc[r] = s.dot4(acc[r], w, q[r][g][k]);
                }
            }
            let scale = s.load(&scales[g]);
            for r in 0..R {
                let factor = s.mul(scale, s.splat(x_scales[r][g * group / ACTIVATION_BLOCK]));
                products[r] = s.mul_add(factor, s.to_f32(acc[r]), products[r]);
                if MINS {
                    offsets[r] = s.mul_add(s.load(&mins[g]), s.splat(x_scaled[r][g]), offsets[r]);
                }
            }
        }
        for r in 0..R {
            s.store(products[r], &mut sums[r].products);
            s.store(offsets[r], &mut sums[r].mins);
        }
    }
}
