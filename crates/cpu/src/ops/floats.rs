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
use crate::kernels::products::{GROUP, PackRows, Products, ROWS, packed_vectors, tiles_together};
use crate::kernels::shared::BlockQueue;
use crate::kernels::tile::TILE;
use crate::machine::{Machine, fork};
use crate::plan::Strip;
use crate::scratch::TileScratch;
use crate::weights::{Way, Weight, as_stored, decode};

/// Rows up to which weights are multiplied a few at a time, as they lie.
pub(super) const IN_PLACE_ROWS: usize = 8;

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
            kernels.run(PackRows { rows, stride: x.stride, count, columns, out });
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
            let packed = &mut packed[..packed_vectors(count, columns)];
            let groups = (first..first + count).step_by(GROUP);
            for (row, out) in groups.zip(packed.chunks_mut(packed_vectors(GROUP, columns))) {
                let count = GROUP.min(first + count - row);
                let bytes = self.weights.rows(strip.part.weight, before + row, count);
                match format {
                    Format::F32 if self.pack::<f32>(bytes, count, out) => {}
                    Format::F16 if self.pack::<u16>(bytes, count, out) => {}
                    Format::BF16 if self.pack::<Bf16>(bytes, count, out) => {}
                    _ => {
                        let rows = &mut floats[..count * columns];
                        way = decode(self.kernels, format, bytes, rows);
                        self.kernels.run(PackRows { rows: &*rows, stride: columns, count, columns, out });
                    }
                }
            }
            let (weights, x) = (&*packed, self.floats);
            if let Some(packed) = self.packed {
                let rows = x.count;
                self.kernels.run(Products { weights, columns, x: packed, rows, out, stride, sums });
                continue;
            }
            for first in (0..x.count).step_by(ROWS) {
                let (rows, count) = (&x.values[first * x.stride..], ROWS.min(x.count - first));
                let packed = &mut packed_rows[..packed_vectors(count, columns)];
                self.kernels.run(PackRows { rows, stride: x.stride, count, columns, out: packed });
                let (x, out) = (&*packed, &mut out[first..]);
                self.kernels.run(Products { weights, columns, x, rows: count, out, stride, sums });
            }
        }
        way
    }

    /// Packs rows of weights as they lie in the file, if they are aligned and in this machine's order of bytes.
    fn pack<T: Stored + Pod>(&self, bytes: &[u8], count: usize, out: &mut [[f32; LANES]]) -> bool {
        let Some(rows) = as_stored::<T>(bytes) else { return false };
        let columns = self.columns;
        self.kernels.run(PackRows { rows, stride: columns, count, columns, out });
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
