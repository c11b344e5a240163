//! The rows that matrices are multiplied with, in integers: those of a linear op, and those of experts, sorted by expert.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use gleed_model::arithmetic::BLOCK;
use gleed_model::program::{Op, Program, experts_used};

use crate::kernels::Kernels;
use crate::kernels::blocked::{BLOCK_ROWS, block_lines, chunks, fill_block};
use crate::kernels::pool::Pool;
use crate::kernels::quantize::{Quantize, Quantized, Remainder, row_words};
use crate::kernels::shared::BlockQueue;
use crate::kernels::slots::Slots;
use crate::kernels::tile::Line;
use crate::machine::{at_once, fork};
use crate::memory::Large;
use crate::scratch::{Scratch, lock};
use crate::weights::Weights;

/// Rows that become integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegerRows {
    /// How many.
    pub count: usize,
    /// Values of one.
    pub columns: usize,
    /// Columns per scale.
    pub block: usize,
}

/// Quantises rows, one after the other into `words`, behind them what is left of the uneven ones, whose numbers go to
/// `uneven`.
pub(crate) fn quantize<'a>(
    kernels: Kernels,
    pool: &mut Pool,
    scratch: &[Mutex<Scratch>],
    IntegerRows { count, columns, block }: IntegerRows,
    words: &mut [i32],
    uneven: &mut Vec<usize>,
    x: impl Fn(usize) -> &'a [f32] + Sync,
) {
    let row = row_words(columns, block);
    let (whole, remainders) = words.split_at_mut(count * row);
    let found = Mutex::new(&mut *uneven);
    let (queue, at_once) = (BlockQueue::new(whole, count, row), at_once(pool, count));
    fork(pool, count, 2 * count * columns, |_| {
        for mut row in queue.in_chunks(at_once) {
            let index = row.index();
            if kernels.run(Quantize { x: x(index), block, words: row.of(0) }) {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(index);
            }
        }
    });
    uneven.sort_unstable();
    let whole = Quantized { words: whole, columns, block, rows: count };
    let queue = BlockQueue::new(&mut remainders[..uneven.len() * row], uneven.len(), row);
    fork(pool, uneven.len(), 4 * uneven.len() * columns, |thread| {
        let rest = &mut lock(&scratch[thread]).tile.floats[..columns];
        while let Some(mut remainder) = queue.next() {
            let row = uneven[remainder.index()];
            kernels.run(Remainder { x: x(row), quantized: whole.row(row, BLOCK), out: rest });
            kernels.run(Quantize { x: rest, block, words: remainder.of(0) });
        }
    });
}

/// Copies `count` quantised rows from where `row_of` says they are.
pub(crate) fn copy_rows(
    pool: &mut Pool,
    IntegerRows { columns, block, .. }: IntegerRows,
    from: &[i32],
    row_of: impl Fn(usize) -> usize + Sync,
    to: &mut [i32],
    count: usize,
) {
    let size = row_words(columns, block);
    let (queue, at_once) = (BlockQueue::new(&mut to[..count * size], count, size), at_once(pool, count));
    fork(pool, count, count * size, |_| {
        for mut row in queue.in_chunks(at_once) {
            let first = row_of(row.index()) * size;
            row.of(0).copy_from_slice(&from[first..first + size]);
        }
    });
}

/// Copies quantised rows to the blocks of a tile unit, each of which has some of them.
pub(crate) fn fill_blocks(
    kernels: Kernels,
    pool: &mut Pool,
    all: Quantized,
    blocks: usize,
    rows: impl Fn(usize) -> Range<usize> + Sync,
    lines: &mut [Line],
) {
    let Quantized { columns, block, .. } = all;
    let (size, chunks) = (block_lines(columns, block), chunks(columns, block));
    let queue = BlockQueue::new(&mut lines[..chunks * blocks * size], blocks, size);
    fork(pool, blocks, blocks * BLOCK_ROWS * columns, |_| {
        while let Some(mut block) = queue.next() {
            let rows = rows(block.index());
            let some = Quantized { rows: rows.len(), ..all.from_row(rows.start) };
            (0..chunks).for_each(|chunk| fill_block(kernels, some, chunk, block.of(chunk)));
        }
    });
}

/// The rows of an op's input in integers.
pub(crate) struct QuantizedInput {
    /// Columns per scale.
    pub block: usize,
    /// One row after the other, then the remainders of the uneven ones.
    pub words: Large<i32>,
    /// Which rows are uneven.
    pub uneven: Vec<usize>,
    /// The same in blocks of rows, where the machine has a tile unit.
    pub lines: Large<Line>,
}

impl QuantizedInput {
    /// Room for `max_rows` rows of at most `columns` columns, and their remainders.
    pub fn new(kernels: Kernels, block: usize, columns: usize, max_rows: usize) -> Option<QuantizedInput> {
        let uneven = Vec::with_capacity(if block == BLOCK { 0 } else { max_rows });
        let max_rows = max_rows.checked_add(uneven.capacity())?;
        let words = row_words(columns, block).checked_mul(max_rows)?;
        let lines = kernels
            .tile_blocks(max_rows)
            .checked_mul(block_lines(columns, block))?
            .checked_mul(chunks(columns, block))?;
        Some(QuantizedInput { block, words: Large::zeros(words)?, uneven, lines: Large::zeros(lines)? })
    }

    pub fn bytes(&self) -> usize {
        let uneven = self.uneven.capacity() * size_of::<usize>();
        size_of_val(&self.words[..]) + uneven + size_of_val(&self.lines[..])
    }
}

/// What experts read, sorted by expert.
pub(crate) struct SlotInputs {
    pub slots: Slots,
    /// `[slot][columns]`, for weights that are multiplied as floats.
    pub floats: Large<f32>,
    /// In blocks of 32 columns, and of 256.
    pub quantized: [SlotInput; 2],
    /// Which slots the tile unit takes together.
    pub blocks: SlotBlocks,
}

/// Blocks of slots of one expert each, as a tile unit takes rows, expert by expert.
pub(crate) struct SlotBlocks {
    /// The slots of each block.
    pub slots: Vec<Range<usize>>,
    /// For each expert that was chosen, where its blocks begin, and behind the last where they end.
    pub ends: Vec<usize>,
}

impl SlotBlocks {
    /// Cuts the slots of all experts.
    pub fn cut(&mut self, kernels: Kernels, slots: &Slots) {
        self.slots.clear();
        self.ends.clear();
        self.ends.push(0);
        for (_, range) in slots.chosen() {
            let firsts = range.clone().step_by(BLOCK_ROWS).take(kernels.tile_blocks(range.len()));
            self.slots.extend(firsts.map(|first| first..range.end.min(first + BLOCK_ROWS)));
            self.ends.push(self.slots.len());
        }
    }

    /// The blocks of one of the experts that were chosen.
    pub fn of(&self, chosen: usize) -> Range<usize> {
        self.ends[chosen]..self.ends[chosen + 1]
    }
}

/// What experts read, in integers.
pub(crate) struct SlotInput {
    /// One slot after the other, then the remainders of the uneven ones.
    pub words: Large<i32>,
    /// Which slots are uneven.
    pub uneven: Vec<usize>,
    /// The slots of [`SlotBlocks`], block by block: see [`Blocked`](crate::kernels::blocked::Blocked).
    pub lines: Large<Line>,
}

impl SlotInputs {
    pub fn new(
        kernels: Kernels,
        program: &Program,
        weights: &Weights,
        max_rows: usize,
    ) -> Option<SlotInputs> {
        let (mut slots, mut experts, mut floats, mut blocks) = (0, 0, 0, 0);
        let (mut words, mut lines) = ([0; 2], [0; 2]);
        for node in &program.nodes {
            let Op::ExpertLinear { parts, choice, .. } = &node.op else { continue };
            let all = parts.first().map_or(0, |part| weights.get(part.weight).experts);
            let rows = max_rows.checked_mul(experts_used(*choice, all))?;
            let row_blocks = kernels.most_tile_blocks(rows, all);
            (slots, blocks) = (slots.max(rows), blocks.max(row_blocks));
            for weight in parts.iter().map(|part| weights.get(part.weight)) {
                experts = experts.max(weight.experts);
                match weight.groups {
                    None => floats = floats.max(rows.checked_mul(weight.columns)?),
                    Some(groups) => {
                        let (columns, block) = (weight.columns, groups.block);
                        let index = usize::from(block != BLOCK);
                        words[index] = words[index].max(rows.checked_mul(row_words(columns, block))?);
                        let size = block_lines(columns, block).checked_mul(chunks(columns, block))?;
                        lines[index] = lines[index].max(row_blocks.checked_mul(size)?);
                    }
                }
            }
        }
        let input = |words: usize, uneven: usize, lines: usize| {
            let (words, lines) = (Large::zeros(words)?, Large::zeros(lines)?);
            Some(SlotInput { words, uneven: Vec::with_capacity(uneven), lines })
        };
        // Only blocks of 256 columns can be uneven.
        let uneven = if words[1] > 0 { slots } else { 0 };
        Some(SlotInputs {
            slots: Slots::with_capacity(slots, experts),
            floats: Large::zeros(floats)?,
            quantized: [input(words[0], 0, lines[0])?, input(words[1].checked_mul(2)?, uneven, lines[1])?],
            blocks: SlotBlocks {
                slots: Vec::with_capacity(blocks),
                ends: Vec::with_capacity(experts.checked_add(1)?),
            },
        })
    }

    pub fn bytes(&self) -> usize {
        let quantized = self.quantized.iter().map(|SlotInput { words, uneven, lines }| {
            size_of_val(&words[..]) + uneven.capacity() * size_of::<usize>() + size_of_val(&lines[..])
        });
        let SlotBlocks { slots, ends } = &self.blocks;
        let blocks = slots.capacity() * size_of::<Range<usize>>() + ends.capacity() * size_of::<usize>();
        self.slots.bytes() + size_of_val(&self.floats[..]) + quantized.sum::<usize>() + blocks
    }
}
