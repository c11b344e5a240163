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

/// Multiplies a packed tile with all rows of activations.
#[derive(Debug)]
pub struct MultiplyPacked<'a> {
    /// How the tile is laid out.
    pub packing: Packing,
    /// The tile.
    pub tile: &'a [Line],
    /// What will be multiplied next, and lies behind the tile: it is fetched ahead.
    pub after: &'a [Line],
    /// The activations.
    pub x: Quantized<'a>,
    /// One result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
}

impl Kernel for MultiplyPacked<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let sizes = self.packing.sizes();
        assert!(self.tile.len() == self.packing.lines() && self.out.len() == self.x.rows);
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
        let MultiplyPacked { packing, tile, after, x, ref mut out } = *self;
        let sizes = const { Sizes::of::<L>() };
        let (cells, groups) = (L::BLOCK / BLOCK, L::BLOCK / L::GROUP);
        // Groups and words of a cell.
        let (cell_groups, group_words) = (BLOCK / L::GROUP, L::GROUP / 4);
        let (integers, scales) = tile.split_at(packing.cells() * L::LINES);
        let scales: &[u8] = bytemuck::cast_slice(scales);
        let blocks = packing.columns / L::BLOCK;
        let mut rows = [QuantizedRow { q: &[], scales: &[], sums: &[], scaled_sums: &[], pairs: &[] }; R];
        let mut q = [&[][..]; R];
        for r in 0..R {
            rows[r] = x.row(row + r, L::GROUP);
            q[r] = &rows[r].q.as_chunks::<8>().0[..packing.cells()];
        }
        let mut results = [s.splat(0.0); R];
        let parts = scales.chunks_exact(sizes.bytes).zip(integers.chunks_exact(cells * L::LINES));
        for (b, (scales, integers)) in parts.take(blocks).enumerate() {
            let scales = BlockScales(scales);
            let mut totals = [s.to_i32(0); R];
            for (c, lines) in integers.chunks_exact(L::LINES).enumerate() {
                let next = (b * cells + c) * L::LINES + AHEAD;
                for i in next..next + L::LINES {
                    if let Some(line) = tile.get(i).or_else(|| after.get(i.wrapping_sub(tile.len()))) {
                        s.prefetch(line);
                    }
                }
                let first = (b * cells + c) * cell_groups;
                let mut acc = [[s.to_i32(0); R]; 2];
                for r in 0..R {
                    for (acc, sum) in acc.iter_mut().zip(&rows[r].sums[first..first + cell_groups]) {
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
                            *acc = L::dot(s, *acc, word, q[r][b * cells + c][k]);
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
                let min = scales.min::<S, L>(s);
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
                for r in 0..R {
                    results[r] = s.mul_add(min, sums[r], results[r]);
                }
            }
        }
        for r in 0..R {
            s.store(results[r], &mut out[row + r]);
        }
    }
}
