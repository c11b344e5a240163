//! Experts: rows are sorted by the expert that they chose and each expert's matrices are multiplied with its rows, so
//! that every weight is read once for all rows that need it, and no other.

use std::ops::Range;

use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};
use gleed_model::program::{Activation, Map, Projection, View, experts_used};
use gleed_model::routing::{ROOM, Routing};

use super::Fixed;
use super::linear::{Input, Inputs};
use super::rows::for_each_row;
use crate::inputs::{self, IntegerRows, QuantizedInput, SlotInput, SlotInputs};
use crate::kernels::activate::Activate;
use crate::kernels::add::{Add, AddScaled};
use crate::kernels::blocked::{BLOCK_ROWS, Blocked, block_lines};
use crate::kernels::dot::Rows;
use crate::kernels::map::MapValues;
use crate::kernels::quantize::{Quantized, row_words};
use crate::kernels::shared::{Activations, BlockQueue};
use crate::kernels::slots::Slot;
use crate::kernels::tile::TILE;
use crate::machine::{Machine, at_once, fork};
use crate::plan::{Plan, Strip};
use crate::scratch::{Scratch, lock};

/// out = the experts of each row and their weights.
pub(super) fn route(fixed: Fixed, machine: &mut Machine, routing: Routing, scores: View, out: View) {
    let Machine { pool, activations, rows, scratch, .. } = machine;
    let [bias, factors] = [routing.bias, routing.factors].map(|id| id.map(|id| fixed.weights.vector(id)));
    // Exponentials, then a pass over all experts for each that is chosen.
    let work = scores.width * (16 + routing.used);
    for_each_row(pool, activations, rows.len(), work, |thread, row| {
        let room = &mut lock(&scratch[thread]).room[..ROOM * scores.width];
        let ([scores, _], out) = row.read_write([scores; 2], out);
        routing.choose(scores, bias, factors, room, out);
    });
}

/// x, cut into equal parts, is multiplied part by part with activation(gate).
pub(super) fn gate(machine: &mut Machine, activation: Activation, gate: View, x: View) {
    let Machine { kernels, pool, activations, rows, scratch, .. } = machine;
    for_each_row(pool, activations, rows.len(), 8 * x.width, |thread, row| {
        let room = &mut lock(&scratch[thread]).room[..gate.width];
        let ([gates, _], x) = row.read_write([gate; 2], x);
        room.copy_from_slice(gates);
        if gates.len() == x.len() {
            kernels.run(Activate { activation, x: room, up: Some(x) });
            x.copy_from_slice(room);
        } else {
            kernels.run(Activate { activation, x: room, up: None });
            for (x, factor) in x.chunks_exact_mut(x.len() / room.len()).zip(room) {
                kernels.run(MapValues { map: Map::Scale(*factor), x });
            }
        }
    });
}

/// out = the input times the weight of each expert of the row.
pub(super) fn weigh(machine: &mut Machine, choice: View, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), out.width, |_, row| {
        let ([choice, input], out) = row.read_write([choice, input], out);
        let weights = &choice[choice.len() / 2..];
        for (x, weight) in out.chunks_exact_mut(input.len()).zip(weights) {
            x.copy_from_slice(input);
            kernels.run(MapValues { map: Map::Scale(*weight), x });
        }
    });
}

/// out = the sum of what the experts of the row gave, in order of rank.
pub(super) fn combine(machine: &mut Machine, choice: View, weighted: bool, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), input.width, |_, row| {
        let ([choice, given], x) = row.read_write([choice, input], out);
        let weights = &choice[choice.len() / 2..];
        x.fill(0.0);
        for (y, weight) in given.chunks_exact(x.len()).zip(weights) {
            kernels.run(AddScaled { x, y, factor: if weighted { *weight } else { 1.0 } });
        }
    });
}

/// out = for each part, the outputs of each expert of the row.
pub(super) fn linear(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    parts: &[Projection],
    choice: Option<View>,
    input: View,
) {
    let weights = fixed.weights;
    let Some(first) = parts.first() else { return };
    let (experts, columns) = (weights.get(first.weight).experts, weights.get(first.weight).columns);
    sort(machine, choice, experts);
    let source = Source { input, columns };
    let blocks = |part: &Projection| weights.get(part.weight).groups.map(|groups| groups.block);
    for (index, block) in [BLOCK, SUPER_BLOCK].into_iter().enumerate() {
        machine.slots.quantized[index].uneven.clear();
        if parts.iter().any(|part| blocks(part) == Some(block)) {
            quantize(machine, source, index, block);
        }
    }
    if parts.iter().any(|part| blocks(part).is_none()) {
        gather(machine, source);
    }
    let Machine {
        kernels,
        pool,
        activations,
        scratch,
        slots: SlotInputs { slots, floats, quantized, blocks: row_blocks },
        ..
    } = machine;
    let (kernels, quantized) = (*kernels, &*quantized);
    // Some slots, a part of which the tile unit can take, or some of the remainders.
    let inputs = |rows: Range<usize>, on_tiles: Range<usize>, remainders: bool| {
        let first = rows.start + if remainders { slots.all().len() } else { 0 };
        let quantized = [(BLOCK, &quantized[0]), (SUPER_BLOCK, &quantized[1])].map(|(block, input)| {
            let SlotInput { words, lines, .. } = input;
            let row = row_words(columns, block);
            let words = words.get(first * row..(first + rows.len()) * row).unwrap_or_default();
            let lines = lines.get(on_tiles.start * block_lines(columns, block)..).unwrap_or_default();
            let stride = row_blocks.slots.len();
            Input {
                quantized: Quantized { words, columns, block, rows: rows.len() },
                blocked: Blocked { lines, row_blocks: on_tiles.len(), stride, columns, block },
                uneven: &[],
            }
        });
        let values = floats.get(rows.start * columns..rows.end * columns).unwrap_or_default();
        let floats = Rows { values, stride: columns, count: rows.len() };
        Inputs { kernels, weights, floats, packed: None, columns, quantized }
    };
    let queue = activations.split_slots(slots, &plan.slots);
    let size: usize = parts.iter().map(|part| weights.get(part.weight).rows * columns).sum();
    fork(pool, queue.len(), slots.all().len() * size / 8, |thread| {
        let mut scratch = lock(&scratch[thread]);
        let Scratch { tile, results, .. } = &mut *scratch;
        let [results, more] = results.each_mut().map(|lines| bytemuck::cast_slice_mut(lines));
        let strip_of =
            |chosen: usize, part: usize| Strip { expert: slots.chosen()[chosen].0, ..plan.strips[part] };
        let mut tasks = queue.in_shares(plan.share).peekable();
        while let Some(mut task) = tasks.next() {
            let strip = strip_of(task.chosen, task.part);
            let next = tasks.peek().map_or(plan.then[thread], |next| strip_of(next.chosen, next.part));
            let rows = slots.chosen()[task.chosen].1.clone();
            let stride = rows.len().next_multiple_of(BLOCK_ROWS);
            let on_tiles = row_blocks.of(task.chosen);
            inputs(rows.clone(), on_tiles, false).multiply(strip, next, tile, results, stride);
            if let Some(block) = blocks(&strip.part) {
                let uneven = &quantized[usize::from(block != BLOCK)].uneven;
                let first = uneven.partition_point(|slot| *slot < rows.start);
                let count = uneven[first..].partition_point(|slot| *slot < rows.end);
                if count > 0 {
                    let part = Projection { bias: None, ..strip.part };
                    let strip = Strip { part, ..strip };
                    inputs(first..first + count, 0..0, true).multiply(strip, strip, tile, more, count);
                    let tiles = results.chunks_mut(stride).zip(more.chunks(count));
                    for (results, more) in tiles.take(strip.rows.div_ceil(TILE)) {
                        for (slot, more) in uneven[first..first + count].iter().zip(more) {
                            kernels.run(Add { x: &mut results[slot - rows.start], y: more });
                        }
                    }
                }
            }
            for slot in 0..task.len() {
                for (t, out) in task.write(slot).chunks_mut(TILE).enumerate() {
                    out.copy_from_slice(&results[t * stride + slot][..out.len()]);
                }
            }
        }
    });
}

/// Where the rows of experts come from.
#[derive(Clone, Copy)]
struct Source {
    input: View,
    /// Of a row.
    columns: usize,
}

impl Source {
    /// What a slot reads: the same as the others of its row, or its own.
    fn row(self, activations: &Activations, Slot { row, rank }: Slot) -> &[f32] {
        let own = if self.is_shared() { 0 } else { rank * self.columns };
        activations.row(self.input.part(own, self.columns), row)
    }

    /// Whether all slots of a row read the same.
    fn is_shared(self) -> bool {
        self.input.width == self.columns
    }
}

/// Sorts the slots of all rows by expert, and cuts those of each into blocks.
fn sort(machine: &mut Machine, choice: Option<View>, experts: usize) {
    let Machine { kernels, activations, rows, slots: SlotInputs { slots, blocks, .. }, .. } = machine;
    slots.sort(rows.len(), experts_used(choice, experts), experts, |Slot { row, rank }| {
        choice.map_or(rank, |choice| activations.row(choice, row)[rank] as usize)
    });
    blocks.cut(*kernels, slots);
}

/// Copies what the slots read.
fn gather(machine: &mut Machine, source: Source) {
    let Machine { pool, activations, slots: SlotInputs { slots, floats, .. }, .. } = machine;
    let (activations, count, columns) = (&*activations, slots.all().len(), source.columns);
    let queue = BlockQueue::new(&mut floats[..count * columns], count, columns);
    let at_once = at_once(pool, count);
    fork(pool, count, count * columns, |_| {
        for mut block in queue.in_chunks(at_once) {
            let slot = slots.all()[block.index()];
            block.of(0).copy_from_slice(source.row(activations, slot));
        }
    });
}

/// Quantises what the slots read, and what is left of the uneven ones. What all slots of a row read is quantised once.
fn quantize(machine: &mut Machine, source: Source, index: usize, block: usize) {
    let Machine { kernels, pool, activations, rows, slots: inputs, scratch, .. } = machine;
    let SlotInputs { slots, quantized, blocks, .. } = inputs;
    let (activations, slots, columns) = (&*activations, slots.all(), source.columns);
    let SlotInput { words, uneven, lines } = &mut quantized[index];
    let shape = IntegerRows { count: slots.len(), columns, block };
    if source.is_shared() {
        let QuantizedInput { words: row_words, uneven: uneven_rows, .. } =
            if block == BLOCK { &mut machine.quantized } else { &mut machine.super_quantized };
        uneven_rows.clear();
        let shape = IntegerRows { count: rows.len(), ..shape };
        let x = |row: usize| activations.row(source.input, row);
        inputs::quantize(*kernels, pool, scratch, shape, row_words, uneven_rows, x);
        let is_uneven = |slot: &usize| uneven_rows.binary_search(&slots[*slot].row).is_ok();
        uneven.extend((0..slots.len()).filter(is_uneven));
        let row_of = |index: usize| match uneven.get(index.wrapping_sub(slots.len())) {
            None => slots[index].row,
            Some(slot) => rows.len() + uneven_rows.partition_point(|row| *row < slots[*slot].row),
        };
        inputs::copy_rows(pool, shape, row_words, row_of, &mut words[..], slots.len() + uneven.len());
    } else {
        let x = |slot: usize| source.row(activations, slots[slot]);
        inputs::quantize(*kernels, pool, scratch, shape, words, uneven, x);
    }
    let all = Quantized { words, columns, block, rows: slots.len() };
    inputs::fill_blocks(*kernels, pool, all, blocks.slots.len(), |b| blocks.slots[b].clone(), lines);
}
