//! Linear ops: threads take tiles of sixteen rows of a weight and multiply them with all rows of the
//! batch, so that each weight is read from memory once.
//!
//! Weights that were repacked when the model was loaded are multiplied as they lie, on the tile unit where
//! there is one and there are rows enough. Other block-quantised weights are unpacked from the file panel by
//! panel (see [`PANEL`]) in `q8` arithmetic; all others are decoded to f32, a few rows at a time.

use gleed_gguf::Groups;
use gleed_model::program::{Activation, Part, View};

use super::Fixed;
use crate::kernels::Kernels;
use crate::kernels::activate::Activate;
use crate::kernels::blocked::{BLOCK_ROWS, Blocked, block_lines, fill_block};
use crate::kernels::dot::{DOT_ROWS, Dots, Rows};
use crate::kernels::integer::{Multiply, PACK_COLUMNS, Pack, Panel, Quantized, Running, TILE};
use crate::kernels::packed::{Line, MultiplyPacked, Packing, UnpackTile};
use crate::kernels::quantize::{Quantize, row_words};
use crate::kernels::shared::BlockQueue;
use crate::kernels::unpack::{Prefetch, Unpack};
use crate::machine::{Machine, PANEL, STRIDE, Scratch, TileScratch, fork, lock};
use crate::plan::Plan;
use crate::weights::{Weights, as_floats, decode};

/// Chunks of tiles that each thread takes in the course of an op: enough that threads end together.
const CHUNKS: usize = 8;

/// out = the outputs of all parts, one after the other; or, with an activation, of two parts
/// activation(first) · second.
pub(super) fn linear(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    parts: &[Part],
    activation: Option<Activation>,
    input: View,
    out: View,
) {
    let weights = fixed.weights;
    if parts.iter().any(|part| weights.get(part.weight).groups.is_some()) {
        quantize(machine, input);
    }
    let Machine { kernels, pool, activations, rows, quantized, blocked, scratch, whole, .. } = machine;
    let ([source], tiles) = activations.split_view([input], out, whole, &plan.columns);
    let quantized = Quantized { words: quantized, columns: input.width, rows: rows.len() };
    let blocked = Blocked { lines: blocked, columns: input.width };
    let inputs = Inputs { kernels: *kernels, weights, floats: source.rows(), quantized, blocked };
    let chunk = tiles.len().div_ceil(CHUNKS * pool.threads());
    let size: usize = parts.iter().map(|part| weights.get(part.weight).rows * input.width).sum();
    // A multiply-add is a fraction of what the threshold counts as a value's work.
    fork(pool, rows.len() * size / 8, |thread| {
        let mut scratch = lock(&scratch[thread]);
        let Scratch { tile: tile_scratch, results: [results, factors], .. } = &mut *scratch;
        let (results, factors) = (&mut results[..rows.len()], &mut factors[..rows.len()]);
        while let Some(chunk) = tiles.next(chunk) {
            for mut tile in chunk {
                let planned = plan.tiles[tile.column_part];
                let range = planned.first..planned.first + tile.columns().len();
                let count = range.len();
                inputs.multiply(parts[planned.part], range.clone(), tile_scratch, results);
                if let Some(activation) = activation {
                    inputs.multiply(parts[1], range, tile_scratch, factors);
                    for row in tile.rows() {
                        let (gate, up) = (&results[row][..count], Some(&factors[row][..count]));
                        kernels.run(Activate { activation, gate, up, out: tile.row(row) });
                    }
                } else {
                    for row in tile.rows() {
                        match tile.row(row).as_mut_array() {
                            Some(out) => *out = results[row],
                            None => tile.row(row).copy_from_slice(&results[row][..count]),
                        }
                    }
                }
            }
        }
    });
}

/// Quantises the input of an op, all rows once.
fn quantize(machine: &mut Machine, input: View) {
    let Machine { kernels, pool, activations, rows, quantized, blocked, .. } = machine;
    let (count, words) = (rows.len(), row_words(input.width));
    let queue = BlockQueue::new(&mut quantized[..count * words], count, words);
    let activations = &*activations;
    fork(pool, 2 * count * input.width, |_| {
        while let Some(mut row) = queue.next() {
            let x = activations.row(input, row.index());
            kernels.run(Quantize { x, words: row.of(0) });
        }
    });
    let (blocks, lines) = (kernels.tile_rows(count) / BLOCK_ROWS, block_lines(input.width));
    let queue = BlockQueue::new(&mut blocked[..blocks * lines], blocks, lines);
    let quantized = &*quantized;
    fork(pool, blocks * BLOCK_ROWS * input.width, |_| {
        while let Some(mut block) = queue.next() {
            let words = &quantized[block.index() * BLOCK_ROWS * words..][..BLOCK_ROWS * words];
            fill_block(Quantized { words, columns: input.width, rows: BLOCK_ROWS }, block.of(0));
        }
    });
}

/// What all tiles of an op share.
struct Inputs<'a> {
    kernels: Kernels,
    weights: &'a Weights,
    floats: Rows<'a>,
    quantized: Quantized<'a>,
    blocked: Blocked<'a>,
}

impl Inputs<'_> {
    /// Some rows of a part's weight (at most [`TILE`]) times all rows of the batch, with the bias.
    fn multiply(
        &self,
        part: Part,
        range: std::ops::Range<usize>,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
    ) {
        match self.weights.get(part.weight).groups {
            Some(_) if let Some((packing, tile)) = self.weights.tile(part.weight, range.start) => {
                self.packed(packing, tile, scratch, results);
            }
            Some(groups) => self.integers(part, groups, range.clone(), scratch, results),
            None => self.floats(part, range.clone(), scratch, results),
        }
        if let Some(bias) = part.bias {
            let bias = &self.weights.vector(bias)[range];
            for results in results {
                for (result, bias) in results.iter_mut().zip(bias) {
                    *result += bias;
                }
            }
        }
    }

    /// In `q8` arithmetic on a repacked tile: most rows on the tile unit where there is one and there are
    /// enough of them, the rest on the vector unit.
    fn packed(
        &self,
        packing: Packing,
        tile: &[Line],
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
    ) {
        let x = self.quantized;
        let done = self.kernels.tile_rows(x.rows);
        if done > 0 {
            let TileScratch { tile_integers, tile_scales: scales, tile_mins: mins, tile_products, .. } =
                scratch;
            let integers = bytemuck::cast_slice_mut(tile_integers);
            let panel = self.kernels.run(UnpackTile { packing, tile, integers, scales, mins });
            self.kernels.multiply_blocks(panel, self.blocked, &mut results[..done], tile_products);
            scratch.tiles_multiplied += 1;
        }
        let rest = Quantized {
            words: &x.words[done * row_words(x.columns)..],
            columns: x.columns,
            rows: x.rows - done,
        };
        self.kernels.run(MultiplyPacked { packing, tile, x: rest, out: &mut results[done..] });
    }

    /// In `q8` arithmetic: unpack a panel of each row, pack the sixteen of them, multiply.
    fn integers(
        &self,
        part: Part,
        groups: Groups,
        range: std::ops::Range<usize>,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
    ) {
        let weight = self.weights.get(part.weight);
        let data = self.weights.data(part.weight);
        let bytes_of = |columns: usize| columns / weight.format.block_len() * weight.format.block_bytes();
        let TileScratch { integers, scales, mins, packed, packed_scales, packed_mins, sums, .. } = scratch;
        let sums = &mut sums[..results.len()];
        sums.fill(Running::default());
        for first in (0..weight.columns).step_by(PANEL) {
            let columns = PANEL.min(weight.columns - first);
            let count = columns / groups.len;
            let (skipped, used) = (bytes_of(first), bytes_of(columns));
            // Meanwhile memory fetches the row's next panel, or the first one of the next tile's row.
            let is_last = first + columns == weight.columns;
            let ahead = if is_last { TILE * weight.row_bytes } else { skipped + used };
            for (r, row) in range.clone().enumerate() {
                let start = row * weight.row_bytes;
                let bytes = &data[start + skipped..][..used];
                let next = (start + ahead).min(data.len())..(start + ahead + used).min(data.len());
                self.kernels.run(Prefetch { bytes: &data[next] });
                let mins = &mut mins[r * PANEL / 16..][..if groups.mins { count } else { 0 }];
                self.kernels.run(Unpack {
                    format: weight.format,
                    bytes,
                    integers: &mut bytemuck::cast_slice_mut(integers)[r * STRIDE..][..columns],
                    scales: &mut scales[r * PANEL / 16..][..count],
                    mins,
                });
            }
            // Rows that a last tile lacks keep what was there: their lanes are not used.
            let words = columns.next_multiple_of(PACK_COLUMNS) / 4;
            let stride = PANEL / 16;
            let padded = count.next_multiple_of(TILE);
            self.kernels.run(Pack { rows: integers, stride: STRIDE / 4, out: &mut packed[..words] });
            let out = bytemuck::cast_slice_mut(&mut packed_scales[..padded]);
            self.kernels.run(Pack { rows: bytemuck::cast_slice(scales), stride, out });
            if groups.mins {
                let out = bytemuck::cast_slice_mut(&mut packed_mins[..padded]);
                self.kernels.run(Pack { rows: bytemuck::cast_slice(mins), stride, out });
            }
            let panel = Panel {
                integers: &packed[..columns / 4],
                scales: &packed_scales[..count],
                mins: &packed_mins[..if groups.mins { count } else { 0 }],
                group: groups.len,
            };
            self.kernels.run(Multiply { panel, x: self.quantized, first, sums });
        }
        for (results, sums) in results.iter_mut().zip(sums) {
            for (result, (product, min)) in results.iter_mut().zip(sums.products.iter().zip(&sums.mins)) {
                *result = product + min;
            }
        }
    }

    /// In `f32` arithmetic: decode a few rows, multiply.
    fn floats(
        &self,
        part: Part,
        range: std::ops::Range<usize>,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
    ) {
        let weight = self.weights.get(part.weight);
        let columns = weight.columns;
        for first in range.clone().step_by(DOT_ROWS) {
            let count = DOT_ROWS.min(range.end - first);
            let bytes = self.weights.rows(part.weight, first, count);
            let weights = match as_floats(weight.format, bytes) {
                Some(floats) => floats,
                None => {
                    let floats = &mut scratch.floats[..count * columns];
                    decode(self.kernels, weight.format, bytes, floats);
                    &*floats
                }
            };
            let out = &mut results.as_flattened_mut()[first - range.start..];
            self.kernels.run(Dots { weights, columns, x: self.floats, out, out_stride: TILE });
        }
    }
}
