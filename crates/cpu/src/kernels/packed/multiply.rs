//! Packed tiles times rows of activations on the vector unit.

use std::marker::PhantomData;

use gleed_gguf::Format;
use gleed_model::arithmetic::BLOCK;

use super::layouts::{
    Iq1M, Iq1S, Iq2S, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Layout, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0,
    Q5_1, Q5K, Q6K, Q8_0,
};
use super::{BlockScales, Tiles, UnitSizes, with_layout};
use crate::kernels::quantize::{Quantized, QuantizedRow};
use crate::kernels::simd::{Kernel, Simd};
use crate::kernels::tile::{Line, TILE};

/// Most tiles that are multiplied together: that many places of memory are read at the same time, which is
/// faster than one place after the other.
pub const STREAMS: usize = 4;

/// Multiplies packed tiles with all rows of activations.
#[derive(Debug)]
pub struct MultiplyPacked<'a> {
    /// The tiles.
    pub tiles: Tiles<'a>,
    /// What will be multiplied next: its beginning is fetched meanwhile.
    pub next: Option<Tiles<'a>>,
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
        let (packing, tiles) = (self.tiles.packing, self.tiles.count());
        assert!(
            self.x.rows <= self.stride && self.out.len() + self.stride >= tiles * self.stride + self.x.rows
        );
        assert!(self.x.columns == packing.columns && self.x.block == packing.sizes().block);
        with_layout!(packing.format, L => self.rows::<S, L>(s));
    }
}

impl MultiplyPacked<'_> {
    /// All rows, as many at a time as there are registers for.
    #[inline(always)]
    fn rows<S: Simd, L: Layout>(mut self, s: S) {
        let (mut row, count) = (0, self.x.rows);
        if S::WIDE {
            while row + 4 <= count {
                self.each_tile::<S, L, 4>(s, row);
                row += 4;
            }
        }
        if S::SEVERAL {
            while row + 2 <= count {
                self.tiles_in_turn::<S, L, 2>(s, row);
                row += 2;
            }
        }
        while row < count {
            self.tiles_in_turn::<S, L, 1>(s, row);
            row += 1;
        }
    }

    /// One tile after the other: with many rows the totals of several would not fit in registers.
    #[inline(always)]
    fn each_tile<S: Simd, L: Layout, const R: usize>(&mut self, s: S, row: usize) {
        for tile in 0..self.tiles.count() {
            self.block::<S, L, R, 1>(s, row, tile);
        }
    }

    /// Several tiles in turn: with few rows memory is slow, and likes to be read in several places.
    #[inline(always)]
    fn tiles_in_turn<S: Simd, L: Layout, const R: usize>(&mut self, s: S, row: usize) {
        let (mut tile, count) = (0, self.tiles.count());
        while tile < count {
            tile += match count - tile {
                STREAMS.. if S::IN_TURN => self.block::<S, L, R, STREAMS>(s, row, tile),
                _ => self.block::<S, L, R, 1>(s, row, tile),
            };
        }
    }

    /// `T` tiles times `R` rows. Returns how many tiles.
    #[inline(always)]
    fn block<S: Simd, L: Layout, const R: usize, const T: usize>(
        &mut self,
        s: S,
        row: usize,
        tile: usize,
    ) -> usize {
        let MultiplyPacked { tiles, next, x, ref mut out, stride } = *self;
        s.vectorize(Block::<L, R, T> { tiles, next, x, out, stride, row, tile, layout: PhantomData });
        T
    }
}

/// `T` tiles in a layout times `R` rows: a function of its own for each of them, since a compiler takes far
/// longer for all of them in one.
struct Block<'a, L, const R: usize, const T: usize> {
    tiles: Tiles<'a>,
    next: Option<Tiles<'a>>,
    x: Quantized<'a>,
    out: &'a mut [[f32; TILE]],
    stride: usize,
    /// The first row.
    row: usize,
    /// The first tile.
    tile: usize,
    layout: PhantomData<L>,
}

impl<L: Layout, const R: usize, const T: usize> Kernel for Block<'_, L, R, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Block { tiles, next, out, stride, row, tile, .. } = self;
        // The block as a constant, as it is anyway: all lengths below then follow from the columns, and the
        // registers that checks of each would take are left to the addresses of rows.
        let x = Quantized { block: L::BLOCK, ..self.x };
        let mut rows = [QuantizedRow { q: &[], scales: &[], sums: &[], scaled_sums: &[], pairs: &[] }; R];
        for (r, x_row) in rows.iter_mut().enumerate() {
            *x_row = x.row(row + r, L::GROUP);
        }
        let mut streams = [Stream::default(); T];
        for (t, stream) in streams.iter_mut().enumerate() {
            stream.tile = tiles.get(tile + t).expect("so many tiles");
            stream.next = next.and_then(|next| next.get(tile + t)).unwrap_or_default();
        }
        let mut results = [[s.splat(0.0); R]; T];
        let cells = L::BLOCK / BLOCK;
        for b in 0..x.columns / L::BLOCK {
            let mut totals = [[s.to_i32(0); R]; T];
            for c in 0..cells {
                for t in 0..T {
                    if row == 0 {
                        streams[t].fetch::<S, L>(s, b * cells + c);
                    }
                    streams[t].add_cell::<S, L, R>(s, b, c, &rows, &mut totals[t]);
                }
            }
            for t in 0..T {
                streams[t].add_block::<S, L, R>(s, b, &rows, &totals[t], &mut results[t]);
            }
        }
        for (t, results) in results.iter().enumerate() {
            for r in 0..R {
                s.store(results[r], &mut out[(tile + t) * stride + row + r]);
            }
        }
    }
}

/// How many lines ahead of their use memory is asked for them.
const AHEAD: usize = 32;

/// One of the tiles that are multiplied together.
#[derive(Clone, Copy, Default)]
struct Stream<'a> {
    tile: &'a [Line],
    /// The tile that comes after it.
    next: &'a [Line],
}

impl<'a> Stream<'a> {
    /// Asks for what comes [`AHEAD`] lines after a cell, in this tile or the next: as many lines as a cell
    /// and its share of the scales have.
    #[inline(always)]
    fn fetch<S: Simd, L: Layout>(&self, s: S, cell: usize) {
        let (lines, cells) = const { (UnitSizes::of::<L>().unit_lines(), UnitSizes::of::<L>().unit_cells()) };
        let first = cell * lines / cells + AHEAD;
        for at in first..first + lines.div_ceil(cells) {
            let line = match at.checked_sub(self.tile.len()) {
                None => &self.tile[at],
                Some(at) => self.next.get(at).unwrap_or(&self.tile[0]),
            };
            s.prefetch(line);
        }
    }

    #[inline(always)]
    fn scales<L: Layout>(&self, b: usize) -> BlockScales<'a> {
        BlockScales::of::<L>(self.tile, b)
    }

    /// Cell `c` of block `b`: totals += factor · products.
    #[inline(always)]
    fn add_cell<S: Simd, L: Layout, const R: usize>(
        &self,
        s: S,
        b: usize,
        c: usize,
        rows: &[QuantizedRow; R],
        totals: &mut [S::I32; R],
    ) {
        // Groups of a cell, and words of a group.
        let (groups, words) = (BLOCK / L::GROUP, L::GROUP / 4);
        let cell = b * (L::BLOCK / BLOCK) + c;
        let mut acc = [[s.to_i32(0); R]; 2];
        let mut q = [&[0; 8]; R];
        for r in 0..R {
            q[r] = &rows[r].q.as_chunks().0[cell];
            for (acc, sum) in acc.iter_mut().zip(&rows[r].sums[cell * groups..][..groups]) {
                acc[r] = L::start(s, *sum);
            }
        }
        L::words(
            s,
            &self.tile[const { UnitSizes::of::<L>() }.integers_at(cell)..][..L::LINES],
            #[inline(always)]
            |k, word| {
                for r in 0..R {
                    let acc = &mut acc[k / words][r];
                    *acc = L::dot(s, *acc, word, q[r][k]);
                }
            },
        );
        if L::BLOCK == BLOCK {
            *totals = acc[0];
            return;
        }
        for (g, acc) in acc.iter().enumerate().take(groups) {
            let factor = self.scales::<L>(b).factor::<S, L>(s, c * groups + g);
            for r in 0..R {
                totals[r] = s.mul_add_i32(acc[r], factor, totals[r]);
            }
        }
    }

    /// Block `b`: results += scale · totals [+ min · sums].
    #[inline(always)]
    fn add_block<S: Simd, L: Layout, const R: usize>(
        &self,
        s: S,
        b: usize,
        rows: &[QuantizedRow; R],
        totals: &[S::I32; R],
        results: &mut [S::F32; R],
    ) {
        let scales = self.scales::<L>(b);
        let scale = scales.scale::<S, L>(s);
        for r in 0..R {
            let factor = s.mul(scale, s.splat(rows[r].scales[b]));
            results[r] = s.mul_add(factor, s.to_f32(totals[r]), results[r]);
        }
        if !L::MINS {
            return;
        }
        let mut sums = [s.splat(0.0); R];
        if L::BLOCK == BLOCK {
            for r in 0..R {
                sums[r] = s.splat(rows[r].scaled_sums[b]);
            }
        } else {
            let pairs = L::BLOCK / L::GROUP / 2;
            let mut totals = [s.to_i32(0); R];
            for i in 0..pairs {
                let pair = scales.min_factors::<S, L>(s, i);
                for r in 0..R {
                    totals[r] = s.dot2(totals[r], pair, rows[r].pairs[b * pairs + i]);
                }
            }
            for r in 0..R {
                sums[r] = s.mul(s.splat(rows[r].scales[b]), s.to_f32(totals[r]));
            }
        }
        let min = scales.min::<S, L>(s);
        for r in 0..R {
            results[r] = s.mul_add(min, sums[r], results[r]);
        }
    }
}
