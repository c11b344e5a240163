//! Packed tiles times rows of activations on the vector unit.

use gleed_gguf::Format;
use gleed_model::arithmetic::BLOCK;

use super::layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::{BlockScales, Line, Packing, Sizes, with_layout};
use crate::kernels::integer::{Quantized, TILE};
use crate::kernels::quantize::QuantizedRow;
use crate::kernels::simd::{Kernel, Simd};

/// How many lines ahead of their use memory is asked for them: the processor alone does not look beyond
/// the end of a page.
const AHEAD: usize = 64;

/// Most tiles that are multiplied together: so many places of memory are read at the same time, which is
/// faster than one place after the other.
pub const STREAMS: usize = 4;

/// Multiplies packed tiles with all rows of activations.
#[derive(Debug)]
pub struct MultiplyPacked<'a> {
    /// How the tiles are laid out.
    pub packing: Packing,
    /// The tiles, at most [`STREAMS`].
    pub tiles: &'a [Line],
    /// The activations.
    pub x: Quantized<'a>,
    /// For each tile one result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
    /// From tile to tile in `out`.
    pub stride: usize,
}

impl Kernel for MultiplyPacked<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let sizes = self.packing.sizes();
        let tiles = self.tiles.len() / self.packing.lines();
        assert!(tiles <= STREAMS && self.tiles.len() == tiles * self.packing.lines());
        assert!(
            self.x.rows <= self.stride && self.out.len() + self.stride >= tiles * self.stride + self.x.rows
        );
        assert!(self.x.columns == self.packing.columns && self.x.block == sizes.block);
        with_layout!(self.packing.format, L => self.rows::<S, L>(s));
    }
}

impl MultiplyPacked<'_> {
    /// All rows, as many at a time as there are registers for.
    #[inline(always)]
    fn rows<S: Simd, L: Layout>(mut self, s: S) {
        let (mut row, count) = (0, self.x.rows);
        if S::WIDE {
            // Two groups per cell are two sums per row.
            while L::GROUP == BLOCK && row + 8 <= count {
                self.block::<S, L, 8>(s, row);
                row += 8;
            }
            while row + 4 <= count {
                self.block::<S, L, 4>(s, row);
                row += 4;
            }
        }
        while row + 2 <= count {
            self.block::<S, L, 2>(s, row);
            row += 2;
        }
        if row < count {
            self.block::<S, L, 1>(s, row);
        }
    }

    #[inline(always)]
    fn block<S: Simd, L: Layout, const R: usize>(&mut self, s: S, row: usize) {
        let MultiplyPacked { packing, tiles, x, ref mut out, stride } = *self;
        let mut rows = [QuantizedRow { q: &[], scales: &[], sums: &[], scaled_sums: &[], pairs: &[] }; R];
        for (r, x_row) in rows.iter_mut().enumerate() {
            *x_row = x.row(row + r, L::GROUP);
        }
        let tiles = tiles.chunks_exact(packing.lines());
        let count = tiles.len();
        let mut parts = [(&[][..], &[][..]); STREAMS];
        for (part, tile) in parts.iter_mut().zip(tiles) {
            let (integers, scales) = tile.split_at(packing.cells() * L::LINES);
            *part = (integers, bytemuck::cast_slice(scales));
        }
        let mut results = [[s.splat(0.0); R]; STREAMS];
        for b in 0..packing.columns / L::BLOCK {
            for ((integers, scales), results) in parts[..count].iter().zip(&mut results) {
                add_block::<S, L, R>(s, b, integers, scales, &rows, results);
            }
        }
        for (t, results) in results[..count].iter().enumerate() {
            for r in 0..R {
                s.store(results[r], &mut out[t * stride + row + r]);
            }
        }
    }
}

/// One block of columns: results += scale · products [+ min · sums].
#[inline(always)]
fn add_block<S: Simd, L: Layout, const R: usize>(
    s: S,
    b: usize,
    integers: &[Line],
    scales: &[u8],
    rows: &[QuantizedRow; R],
    results: &mut [S::F32; R],
) {
    let sizes = const { Sizes::of::<L>() };
    let (cells, groups) = (L::BLOCK / BLOCK, L::BLOCK / L::GROUP);
    // Groups of a cell, and words of a group.
    let (cell_groups, group_words) = (BLOCK / L::GROUP, L::GROUP / 4);
    let lines = cells * L::LINES;
    if let Some(ahead) = integers.get(b * lines + AHEAD..b * lines + AHEAD + lines) {
        ahead.iter().for_each(|line| s.prefetch(line));
    }
    let integers = &integers[b * lines..][..lines];
    let scales = BlockScales(&scales[b * sizes.bytes..][..sizes.bytes]);
    let mut totals = [s.to_i32(0); R];
    for (c, lines) in integers.chunks_exact(L::LINES).enumerate() {
        let cell = b * cells + c;
        let mut acc = [[s.to_i32(0); R]; 2];
        let mut q = [&[0; 8]; R];
        for r in 0..R {
            q[r] = &rows[r].q.as_chunks().0[cell];
            for (acc, sum) in acc.iter_mut().zip(&rows[r].sums[cell * cell_groups..][..cell_groups]) {
                acc[r] = L::start(s, *sum);
            }
        }
        L::words(
            s,
            lines,
            #[inline(always)]
            |k, word| {
                for r in 0..R {
                    let acc = &mut acc[k / group_words][r];
                    *acc = L::dot(s, *acc, word, q[r][k]);
                }
            },
        );
        if sizes.has_factors() {
            for (g, acc) in acc.iter().enumerate().take(cell_groups) {
                let factor = scales.factor::<S, L>(s, c * cell_groups + g);
                for r in 0..R {
                    totals[r] = s.mul_add_i32(acc[r], factor, totals[r]);
                }
            }
        } else {
            totals = acc[0];
        }
    }
    let scale = scales.scale(s);
    for r in 0..R {
        let factor = s.mul(scale, s.splat(rows[r].scales[b]));
        results[r] = s.mul_add(factor, s.to_f32(totals[r]), results[r]);
    }
    if L::MINS {
        let mut sums = [s.splat(0.0); R];
        if sizes.has_factors() {
            let mut totals = [s.to_i32(0); R];
            for i in 0..groups / 2 {
                let pair = scales.min_factors::<S, L>(s, i);
                for r in 0..R {
                    totals[r] = s.dot2(totals[r], pair, rows[r].pairs[b * groups / 2 + i]);
                }
            }
            for r in 0..R {
                sums[r] = s.mul(s.splat(rows[r].scales[b]), s.to_f32(totals[r]));
            }
        } else {
            for r in 0..R {
                sums[r] = s.splat(rows[r].scaled_sums[b]);
            }
        }
        let min = scales.min::<S, L>(s);
        for r in 0..R {
            results[r] = s.mul_add(min, sums[r], results[r]);
        }
    }
}
