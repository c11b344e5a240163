//! Linear ops in `f32` arithmetic: float weights, and all others where that arithmetic was asked for.
//!
//! A few rows multiply weights as they lie in the file. For more, weights and rows are packed first, the rows once for
//! the whole op.

use std::ops::Range;

use bytemuck::Pod;
use gleed_gguf::Format;
use gleed_model::arithmetic::LANES;
use gleed_model::program::View;

use super::linear::Inputs;
use crate::kernels::chain::{Bf16, Stored};
use crate::kernels::dot::{DOT_ROWS, Dots};
use crate::kernels::packed::STREAMS;
use crate::kernels::products::{
    GROUP, PackRows, Products, ROWS, TILES, packed_tile_vectors, packed_vectors, tiles_together,
};
use crate::kernels::shared::BlockQueue;
use crate::kernels::tile::TILE;
use crate::machine::{Machine, fork};
use crate::plan::Strip;
use crate::scratch::TileScratch;
use crate::weights::{Way, Weight, as_stored, decode};

/// Rows up to which weights are multiplied a few at a time, as they lie.
pub(super) const IN_PLACE_ROWS: usize = 8;

/// Rows of activations are packed with nothing beside them.
const ALONE: (usize, usize) = (0, 1);

/// Packs the input of an op, all rows once.
pub(super) fn pack(machine: &mut Machine, input: View) {
    let Machine { kernels, pool, activations, rows, packed, .. } = machine;
    let (x, columns) = (activations.rows(input, rows.len()), input.width);
    let (groups, size) = (x.count.div_ceil(GROUP), packed_vectors(GROUP, columns));
    let queue = BlockQueue::new(&mut packed[..groups * size], groups, size);
    fork(pool, groups, x.count * columns, |_| {
        while let Some(mut group) = queue.next() {
            let first = group.index() * GROUP;
            let (rows, count) = (&x.values[first * x.stride..], GROUP.min(x.count - first));
            let out = bytemuck::cast_slice_mut(group.of(0));
            kernels.run(PackRows { rows, stride: x.stride, count, columns, out, beside: ALONE });
        }
    });
}

impl Inputs<'_> {
    /// In `f32` arithmetic over many rows: tiles that are packed once for all rows.
    pub fn many_floats(
        &self,
        strip: Strip,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
        stride: usize,
    ) -> Way {
        let mut way = Way::Floats;
        let &Weight { format, columns, rows, .. } = self.weights.get(strip.part.weight);
        let before = strip.expert * rows;
        let TileScratch { floats, packed, packed_rows, sums, .. } = scratch;
        let (packed, sums) = (bytemuck::cast_slice_mut(packed), bytemuck::cast_slice_mut(sums));
        let packed_rows = bytemuck::cast_slice_mut(packed_rows);
        let tiles = tiles_together(columns).min(STREAMS);
        let firsts = strip.range().step_by(tiles * TILE);
        for (first, out) in firsts.zip(results.chunks_mut(tiles * stride)) {
            let count = (tiles * TILE).min(strip.range().end - first);
            let tiles = count.div_ceil(TILE);
            for (tile, row) in (first..first + count).step_by(TILE).enumerate() {
                let out = &mut packed[packed_tile_vectors(tile / TILES * TILES, columns)..];
                let (count, beside) = (TILE.min(first + count - row), (tile % TILES, TILES));
                let bytes = self.weights.rows(strip.part.weight, before + row, count);
                match format {
                    Format::F32 if self.pack::<f32>(bytes, count, out, beside) => {}
                    Format::F16 if self.pack::<u16>(bytes, count, out, beside) => {}
                    Format::BF16 if self.pack::<Bf16>(bytes, count, out, beside) => {}
                    _ => {
                        let rows = &mut floats[..count * columns];
                        way = decode(self.kernels, format, bytes, rows);
                        self.kernels.run(PackRows {
                            rows: &*rows,
                            stride: columns,
                            count,
                            columns,
                            out,
                            beside,
                        });
                    }
                }
            }
            let (weights, x) = (&*packed, self.floats);
            if let Some(x) = self.packed {
                let rows = self.floats.count;
                self.kernels.run(Products { weights, tiles, columns, x, rows, out, stride, sums });
                continue;
            }
            for first in (0..x.count).step_by(ROWS) {
                let rows = ROWS.min(x.count - first);
                for group in (0..rows).step_by(GROUP) {
                    self.kernels.run(PackRows {
                        rows: &x.values[(first + group) * x.stride..],
                        stride: x.stride,
                        count: GROUP.min(rows - group),
                        columns,
                        out: &mut packed_rows[packed_vectors(group, columns)..],
                        beside: ALONE,
                    });
                }
                let (x, out) = (&*packed_rows, &mut out[first..]);
                self.kernels.run(Products { weights, tiles, columns, x, rows, out, stride, sums });
            }
        }
        way
    }

    /// Packs rows of weights as they lie in the file, if they are aligned and in this machine's order of bytes.
    fn pack<T: Stored + Pod>(
        &self,
        bytes: &[u8],
        count: usize,
        out: &mut [[f32; LANES]],
        beside: (usize, usize),
    ) -> bool {
        let Some(rows) = as_stored::<T>(bytes) else { return false };
        let columns = self.columns;
        self.kernels.run(PackRows { rows, stride: columns, count, columns, out, beside });
        true
    }

    /// In `f32` arithmetic: a few rows of weights at a time, as they lie in the file where it pays, or decoded.
    pub fn few_floats(
        &self,
        strip: Strip,
        range: Range<usize>,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
    ) -> Way {
        let mut way = Way::Floats;
        let id = strip.part.weight;
        let &Weight { format, columns, rows, .. } = self.weights.get(id);
        let before = strip.expert * rows;
        for first in range.clone().step_by(DOT_ROWS) {
            let count = DOT_ROWS.min(range.end - first);
            let bytes = self.weights.rows(id, before + first, count);
            let next = before + rows.min(first + count);
            let next = self.weights.rows(id, next, count.min(rows - first - count));
            let out = &mut results.as_flattened_mut()[first - range.start..];
            match format {
                Format::F32 if self.dots::<f32>(bytes, next, out) => {}
                Format::F16 if self.dots::<u16>(bytes, next, out) => {}
                Format::BF16 if self.dots::<Bf16>(bytes, next, out) => {}
                _ => {
                    let weights = &mut scratch.floats[..count * columns];
                    way = decode(self.kernels, format, bytes, weights);
                    let x = self.floats;
                    self.kernels.run(Dots {
                        weights: &*weights,
                        next: &[],
                        columns,
                        x,
                        out,
                        out_stride: TILE,
                    });
                }
            }
        }
        way
    }

    /// Multiplies rows of weights as they lie in the file, if they are aligned and in this machine's order of
    /// bytes.
    fn dots<T: Stored + Pod>(&self, bytes: &[u8], next: &[u8], out: &mut [f32]) -> bool {
        let Some(weights) = as_stored::<T>(bytes) else { return false };
        let (next, x) = (as_stored(next).unwrap_or_default(), self.floats);
        let columns = self.columns;
        self.kernels.run(Dots { weights, next, columns, x, out, out_stride: TILE });
        true
    }
}
