//! Linear ops: threads take strips of a weight, a few tiles of sixteen rows each, and multiply them with all
//! rows of the batch, so that each weight is read from memory once.
//!
//! Weights that were repacked when the model was loaded are multiplied as they lie, on the tile unit where
//! there is one and there are rows enough. Other block-quantised weights are unpacked from the file, tile by
//! tile, in `q8` arithmetic; float weights are the subject of [`super::floats`].

use std::ops::Range;

use gleed_gguf::Groups;
use gleed_model::arithmetic::{BLOCK, LANES, SUPER_BLOCK};
use gleed_model::program::{Activation, Projection, View};

use super::Fixed;
use super::floats::{self, IN_PLACE_ROWS};
use crate::inputs::{self, IntegerRows, QuantizedInput};
use crate::kernels::Kernels;
use crate::kernels::activate::Activate;
use crate::kernels::add::Add;
use crate::kernels::blocked::{BLOCK_ROWS, Blocked};
use crate::kernels::dot::Rows;
use crate::kernels::integer::{Multiply, PACK_COLUMNS, Panel};
use crate::kernels::packed::{MultiplyPacked, PanelRoom, STREAMS, Tiles, UnpackTile};
use crate::kernels::quantize::Quantized;
use crate::kernels::tile::{Line, TILE};
use crate::kernels::unpack::Prefetch;
use crate::machine::{Machine, fork};
use crate::plan::{Plan, Strip};
use crate::scratch::{PanelBuffers, Scratch, TileScratch, lock};
use crate::weights::{UnpackedRows, Way, Weights};

/// How many rows ahead of results the memory is asked for that they go to.
const ROWS_AHEAD: usize = 8;

/// out = the outputs of all parts, one after the other; or, with an activation, of two parts
/// activation(first) · second.
pub(super) fn linear(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    parts: &[Projection],
    activation: Option<Activation>,
    input: View,
    out: View,
) {
    let weights = fixed.weights;
    let blocks = |part: &Projection| weights.get(part.weight).groups.map(|groups| groups.block);
    machine.super_quantized.uneven.clear();
    for block in [BLOCK, SUPER_BLOCK] {
        if parts.iter().any(|part| blocks(part) == Some(block)) {
            quantize(machine, input, block);
        }
    }
    if machine.rows.len() > IN_PLACE_ROWS && parts.iter().any(|part| blocks(part).is_none()) {
        floats::pack(machine, input);
    }
    let Machine {
        kernels, pool, activations, rows, quantized, super_quantized, packed, scratch, whole, ..
    } = machine;
    let ([source], strips) = activations.split_view([input], out, whole, &plan.columns);
    let quantized = [&*quantized, super_quantized].map(|input_rows| {
        let QuantizedInput { block, ref words, ref uneven, ref lines } = *input_rows;
        let (columns, count) = (input.width, rows.len() + uneven.len());
        let row_blocks = kernels.tile_blocks(count);
        let blocked = Blocked { lines, row_blocks, stride: row_blocks, columns, block };
        Input { quantized: Quantized { words, columns, block, rows: count }, blocked, uneven }
    });
    let stride = quantized.iter().map(|input| input.quantized.rows).max().unwrap_or(0);
    let stride = stride.next_multiple_of(BLOCK_ROWS);
    let (floats, packed) = (source.rows(), Some(bytemuck::cast_slice(packed)));
    let inputs = Inputs { kernels: *kernels, weights, floats, packed, columns: input.width, quantized };
    let size: usize = parts.iter().map(|part| weights.get(part.weight).rows * input.width).sum();
    // A multiply-add is a fraction of what the threshold counts as a value's work.
    fork(pool, strips.len(), rows.len() * size / 8, |thread| {
        let mut scratch = lock(&scratch[thread]);
        let Scratch { tile: tile_scratch, results, .. } = &mut *scratch;
        let [results, factors] = results.each_mut().map(|lines| bytemuck::cast_slice_mut(lines));
        let mut strips = strips.in_shares(plan.share).peekable();
        while let Some(mut rectangle) = strips.next() {
            let strip = plan.strips[rectangle.column_part];
            let next = strips.peek().map_or(plan.then[thread], |next| plan.strips[next.column_part]);
            let rows = rectangle.rows();
            if let Some(activation) = activation {
                let other = Strip { part: parts[1], ..strip };
                inputs.multiply(strip, other, tile_scratch, results, stride);
                inputs.multiply(other, next, tile_scratch, factors, stride);
                let tiles = strip.rows.div_ceil(TILE);
                for (x, up) in results.chunks_mut(stride).zip(factors.chunks(stride)).take(tiles) {
                    let (x, up) = (x[rows.clone()].as_flattened_mut(), up[rows.clone()].as_flattened());
                    kernels.run(Activate { activation, x, up: Some(up) });
                }
            } else {
                inputs.multiply(strip, next, tile_scratch, results, stride);
            }
            for row in rows.clone() {
                // Rows are so far apart that the machine does not guess the next.
                if rows.contains(&(row + ROWS_AHEAD)) {
                    let bytes = bytemuck::cast_slice(rectangle.row(row + ROWS_AHEAD));
                    kernels.run(Prefetch { bytes });
                }
                for (t, out) in rectangle.row(row).chunks_mut(TILE).enumerate() {
                    let result = &results[t * stride + row];
                    if let Some(out) = out.as_mut_array() {
                        *out = *result;
                    } else {
                        out.copy_from_slice(&result[..out.len()]);
                    }
                }
            }
        }
    });
}

/// Quantises the input of an op, all rows once, and what is left of the uneven ones.
fn quantize(machine: &mut Machine, input: View, block: usize) {
    let Machine { kernels, pool, activations, rows, quantized, super_quantized, scratch, .. } = machine;
    let (kernels, activations) = (*kernels, &*activations);
    let QuantizedInput { words, uneven, lines, .. } =
        if block == BLOCK { quantized } else { super_quantized };
    let (count, width) = (rows.len(), input.width);
    let shape = IntegerRows { count, columns: width, block };
    inputs::quantize(kernels, pool, scratch, shape, words, uneven, |row| activations.row(input, row));
    let count = count + uneven.len();
    let all = Quantized { words, columns: width, block, rows: count };
    let rows = |b: usize| b * BLOCK_ROWS..count.min((b + 1) * BLOCK_ROWS);
    inputs::fill_blocks(kernels, pool, all, kernels.tile_blocks(count), rows, lines);
}

/// What all tiles of an op share.
pub(super) struct Inputs<'a> {
    pub kernels: Kernels,
    pub weights: &'a Weights,
    pub floats: Rows<'a>,
    /// The same packed, where it was.
    pub packed: Option<&'a [[f32; LANES]]>,
    /// Columns of a row.
    pub columns: usize,
    /// In blocks of 32 columns, and of 256.
    pub quantized: [Input<'a>; 2],
}

/// The input in integers.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// All rows, then the remainders of the uneven ones.
    pub quantized: Quantized<'a>,
    /// The same in blocks.
    pub blocked: Blocked<'a>,
    pub uneven: &'a [usize],
}

impl Inputs<'_> {
    /// A strip of a weight times all rows of the batch, with the bias: `[tile][stride]`. Memory for the next
    /// one is asked for meanwhile.
    pub fn multiply(
        &self,
        strip: Strip,
        next: Strip,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
        stride: usize,
    ) {
        let (part, range) = (strip.part, strip.range());
        let tiles = range.clone().step_by(TILE).map(|first| first..range.end.min(first + TILE));
        let way = match self.weights.get(part.weight).groups {
            Some(groups) => {
                let way = self.integers(strip, next, groups, scratch, results, stride);
                let uneven = self.input(groups).uneven;
                for results in results.chunks_mut(stride).take(tiles.len()) {
                    let (results, remainders) = results.split_at_mut(self.floats.count);
                    for (row, remainder) in uneven.iter().zip(remainders) {
                        self.kernels.run(Add { x: &mut results[*row], y: remainder });
                    }
                }
                way
            }
            None if self.floats.count > IN_PLACE_ROWS => self.many_floats(strip, scratch, results, stride),
            None => {
                let mut way = Way::Floats;
                for (tile, results) in tiles.clone().zip(results.chunks_mut(stride)) {
                    way = self.few_floats(strip, tile, scratch, results);
                }
                way
            }
        };
        if strip.first == 0 {
            scratch.multiplied[part.weight][way as usize] += 1;
        }
        if let Some(bias) = part.bias {
            let before = strip.expert * self.weights.get(part.weight).rows;
            for (tile, results) in tiles.zip(results.chunks_mut(stride)) {
                let bias = &self.weights.vector(bias)[before + tile.start..before + tile.end];
                for results in &mut results[..self.floats.count] {
                    results.iter_mut().zip(bias).for_each(|(result, bias)| *result += bias);
                }
            }
        }
    }

    /// The input as integers, for weights in such groups.
    fn input(&self, groups: Groups) -> Input<'_> {
        self.quantized[usize::from(groups.block != BLOCK)]
    }

    /// In `q8` arithmetic: most rows on the tile unit where there is one and there are enough of them, the
    /// rest on the vector unit.
    fn integers(
        &self,
        strip: Strip,
        next: Strip,
        groups: Groups,
        scratch: &mut TileScratch,
        results: &mut [[f32; TILE]],
        stride: usize,
    ) -> Way {
        let range = strip.range();
        let tiles_of = |strip: Strip| self.weights.tiles(strip.part.weight, strip.expert, strip.range());
        let Input { quantized: x, blocked, .. } = self.input(groups);
        let on_tiles = x.rows.min(blocked.row_blocks * BLOCK_ROWS);
        let rest = x.from_row(on_tiles);
        let TileScratch { rows, panels, tile_unit, tiles_multiplied, .. } = scratch;
        let mut on_tile_unit = |panels: &[Panel], next: &[Line], results: &mut [[f32; TILE]]| {
            self.kernels.multiply_blocks(panels, blocked, next, results, stride, tile_unit);
            *tiles_multiplied += panels.len() as u64;
        };
        if let Some(tiles) = tiles_of(strip) {
            let next = tiles_of(next);
            if on_tiles > 0 {
                let mut unpacked = [Panel::EMPTY; STREAMS];
                let count = tiles.count().min(STREAMS);
                for (t, (panel, buffers)) in unpacked[..count].iter_mut().zip(&mut *panels).enumerate() {
                    let (packing, tile, room) = (tiles.packing, tiles.some(t, 1), buffers.room());
                    let room = self.kernels.run(UnpackTile { packing, tile, room });
                    *panel = Panel::of_tile(Tiles { packing, lines: tile }, room);
                }
                let next = next.map_or(&[][..], |next| next.lines);
                on_tile_unit(&unpacked[..count], next, results);
            }
            let out = &mut results[on_tiles..];
            self.kernels.run(MultiplyPacked { tiles, next, x: rest, out, stride });
            return Way::Packed;
        }
        for (tile, results) in range.clone().step_by(TILE).zip(results.chunks_mut(stride)) {
            let tile = tile..range.end.min(tile + TILE);
            let panel = self.unpack(strip, groups, tile, rows, &mut panels[0]);
            if on_tiles > 0 {
                on_tile_unit(&[panel], &[], results);
            }
            self.kernels.run(Multiply { panel, x: rest, out: &mut results[on_tiles..x.rows] });
        }
        Way::FromFile
    }

    /// A tile of a weight that was not repacked, from the file.
    fn unpack<'a>(
        &self,
        strip: Strip,
        groups: Groups,
        range: Range<usize>,
        rows: &mut UnpackedRows,
        panel: &'a mut PanelBuffers,
    ) -> Panel<'a> {
        let weight = self.weights.get(strip.part.weight);
        let (data, bytes) = (self.weights.data(strip.part.weight, strip.expert), weight.row_bytes);
        // Meanwhile memory fetches the next tile.
        let next = range.end * bytes..((range.end + TILE) * bytes).min(data.len());
        self.kernels.run(Prefetch { bytes: &data[next.start.min(next.end)..next.end] });
        let PanelRoom { integers, factors, scales, min_pairs, mins } = panel.room();
        let words = &mut integers[..weight.columns.next_multiple_of(PACK_COLUMNS) / 4];
        let two_levels = groups.block != BLOCK;
        rows.turn(
            self.kernels,
            weight,
            groups,
            &data[range.start * bytes..range.end * bytes],
            words,
            |lane, row| {
                let set = |out: &mut [[f32; TILE]], values: &[f32]| {
                    out.iter_mut().zip(values).for_each(|(out, value)| out[lane] = *value);
                };
                set(scales, row.scales);
                set(mins, row.mins);
                if two_levels {
                    factors
                        .iter_mut()
                        .zip(&*row.factors)
                        .for_each(|(out, value)| out[lane] = i32::from(*value));
                    let pairs = row.min_factors.as_chunks::<2>().0;
                    for (out, [low, high]) in min_pairs.iter_mut().zip(pairs) {
                        out[lane] = i32::from(*low) | i32::from(*high) << 16;
                    }
                }
            },
        );
        Panel::unpacked(groups, panel.room().cut(weight.columns, groups))
    }
}
