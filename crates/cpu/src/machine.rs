//! What all ops share while they run: kernels, threads, activations and scratch memory, all allocated
//! when the executor is made.

use std::sync::Mutex;

use gleed_model::Batch;
use gleed_model::arithmetic::{BLOCK, LANES, PAGE, SPAN, SUPER_BLOCK};
use gleed_model::program::Program;

use crate::Error;
use crate::inputs::{QuantizedInput, SlotInputs};
use crate::kernels::Kernels;
use crate::kernels::attention::QUERIES;
use crate::kernels::pool::Pool;
use crate::kernels::products::packed_vectors;
use crate::kernels::rope::Rotate;
use crate::kernels::shared::{Activations, BlockQueue, Boundaries, zeros};
use crate::kernels::tile::Line;
use crate::memory::Large;
use crate::scratch::{Largest, Scratch, lock, run_rows};
use crate::weights::Weights;

/// Attention is cut so that each thread gets this many parts, where there is enough of it.
const PARTS: usize = 4;

/// The most rows of a batch whose attention is split over spans, see [`Machine::partials`].
pub(crate) const SPLIT_ROWS: usize = 8;

/// Values below which an op runs on the calling thread alone: waking others would take longer.
const SMALL: usize = 1 << 14;

/// What all ops share.
pub(crate) struct Machine {
    pub kernels: Kernels,
    pub pool: Pool,
    pub activations: Activations,
    /// The rows of the batch that ops see: all of them, then the wanted ones.
    pub rows: Vec<LiveRow>,
    /// The rotary tables of the step, one per embedding of the program.
    pub angles: Vec<Angles>,
    /// The input of the linear op that is running, quantised in blocks of 32 columns.
    pub quantized: QuantizedInput,
    /// The same in blocks of 256 columns.
    pub super_quantized: QuantizedInput,
    /// The same as it is, packed, where many rows are multiplied with float weights.
    pub packed: Large<Line>,
    /// The inputs of the experts that are running.
    pub slots: SlotInputs,
    /// One for each thread.
    pub scratch: Vec<Mutex<Scratch>>,
    /// The live rows as one part.
    pub whole: Boundaries,
    /// The live rows in runs of one sequence.
    pub runs: Boundaries,
    /// The rows of the batch by sequence, where there are recurrent layers.
    pub sequences: Sequences,
    /// The most rows of a run.
    run_rows: usize,
    /// Key heads and the query heads that share each.
    heads: (usize, usize),
    /// What attention over single spans leaves to be merged, for [`SPLIT_ROWS`] rows of the longest
    /// sequence.
    pub partials: Box<[[f32; LANES]]>,
    /// How many attention ops were split over spans.
    pub attention_splits: u64,
}

/// The rows of a batch by sequence: tables and rows, both ascending.
pub(crate) struct Sequences(Vec<(u32, usize)>);

impl Sequences {
    /// Each table and its rows.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[(u32, usize)])> {
        self.0.chunk_by(|a, b| a.0 == b.0).map(|rows| (rows[0].0, rows))
    }
}

/// A row that ops see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveRow {
    /// Its index in the batch.
    pub batch: usize,
    pub table: u32,
    pub position: usize,
    /// Where the rows of its sequence end.
    pub length: usize,
    pub token: usize,
}

impl Machine {
    /// Allocates everything that steps of `max_rows` rows need.
    pub fn new(
        kernels: Kernels,
        pool: Pool,
        program: &Program,
        weights: &Weights,
        max_rows: usize,
        pages: usize,
    ) -> Result<Machine, Error> {
        let sizes = Largest::new(program, weights);
        let spans = program.context.min(pages.saturating_mul(PAGE)).div_ceil(SPAN);
        let partials = (SPLIT_ROWS * sizes.heads).checked_mul(partial_vectors(sizes.group, sizes.value_dim));
        let partials = partials.and_then(|vectors| vectors.checked_mul(spans)).and_then(zeros);
        let buffers = "the activations";
        let activations = Activations::new(program.buffers.iter().map(|b| b.width), max_rows);
        let quantized = |block, columns| {
            QuantizedInput::new(kernels, block, columns, max_rows).ok_or(Error::Memory { what: buffers })
        };
        let packed = Large::zeros(packed_vectors(max_rows, sizes.float_columns[0]));
        let angles = program.ropes.iter().map(|rope| Angles::new(rope.dimensions / 2, max_rows));
        let scratch = (0..pool.threads()).map(|_| Some(Mutex::new(Scratch::new(kernels, &sizes, max_rows)?)));
        Ok(Machine {
            kernels,
            activations: activations.ok_or(Error::Memory { what: buffers })?,
            rows: Vec::with_capacity(max_rows),
            angles: angles.collect::<Option<_>>().ok_or(Error::Memory { what: buffers })?,
            quantized: quantized(BLOCK, sizes.columns(BLOCK))?,
            super_quantized: quantized(SUPER_BLOCK, sizes.columns(SUPER_BLOCK))?,
            packed: packed.ok_or(Error::Memory { what: buffers })?,
            slots: SlotInputs::new(kernels, program, weights, max_rows)
                .ok_or(Error::Memory { what: buffers })?,
            scratch: scratch.collect::<Option<_>>().ok_or(Error::Memory { what: "the threads' buffers" })?,
            whole: Boundaries::with_capacity(1),
            runs: Boundaries::with_capacity(max_rows),
            sequences: Sequences(Vec::with_capacity(if program.states.is_empty() { 0 } else { max_rows })),
            run_rows: run_rows(sizes.group),
            heads: (sizes.heads, sizes.group),
            partials: partials.ok_or(Error::Memory { what: buffers })?,
            attention_splits: 0,
            pool,
        })
    }

    /// Takes in a batch: its rows and their rotary angles.
    pub fn begin(&mut self, batch: &Batch, program: &Program) {
        self.rows.clear();
        self.rows.extend(batch.rows().iter().enumerate().map(|(index, row)| LiveRow {
            batch: index,
            table: row.table,
            position: row.position as usize,
            length: batch.length(row.table),
            token: row.token as usize,
        }));
        self.rows_changed();
        if !program.states.is_empty() {
            self.sequences.0.clear();
            self.sequences.0.extend(self.rows.iter().map(|row| (row.table, row.batch)));
            self.sequences.0.sort_unstable();
        }
        let (rows, count) = (&self.rows, self.rows.len());
        for (angles, rope) in self.angles.iter_mut().zip(&program.ropes) {
            let pairs = angles.pairs;
            let queue = BlockQueue::new(&mut angles.values[..count * 2 * pairs], count, 2 * pairs);
            // A sine costs about as much as a few dozen multiplications.
            let at_once = at_once(&self.pool, count);
            fork(&mut self.pool, count, count * pairs * 32, |_| {
                for mut block in queue.in_chunks(at_once) {
                    let position = rows[block.index()].position as u32;
                    let (cos, sin) = block.of(0).split_at_mut(pairs);
                    rope.angles(position, cos, sin);
                }
            });
        }
    }

    /// Updates what is derived from the live rows.
    pub fn rows_changed(&mut self) {
        self.whole.clear();
        self.whole.push(self.rows.len());
        self.runs.clear();
        let (heads, group) = self.heads;
        let even = self.rows.len() * heads / (PARTS * self.pool.threads());
        let most = even.max(QUERIES / group).clamp(1, self.run_rows);
        for end in 1..=self.rows.len() {
            let start = self.runs.end();
            let ends = self.rows.get(end).is_none_or(|next| next.table != self.rows[start].table);
            if ends || end - start == most {
                self.runs.push(end);
            }
        }
    }

    /// Bytes of everything allocated here.
    pub fn bytes(&self) -> usize {
        let angles: usize = self.angles.iter().map(|a| size_of_val(&a.values[..])).sum();
        let scratch: usize = self.scratch.iter().map(|s| lock(s).bytes).sum();
        let quantized = self.quantized.bytes() + self.super_quantized.bytes();
        let slots = self.slots.bytes() + size_of_val(&self.packed[..]);
        self.activations.bytes() + quantized + slots + angles + scratch + size_of_val(&self.partials[..])
    }
}

/// Vectors of what is left to be merged of `queries` queries and one span: the accumulators
/// `[query][dim / 16]`, and for each query a vector of the largest score and the sum.
pub(crate) fn partial_vectors(queries: usize, value_dim: usize) -> usize {
    queries * (value_dim.div_ceil(LANES) + 1)
}

/// Runs a job that takes its work from a queue of tasks: on all threads, or on this one when the work is small or there
/// is only one task, for which no thread needs to be woken.
pub(crate) fn fork(pool: &mut Pool, tasks: usize, work: usize, job: impl Fn(usize) + Sync) {
    if tasks <= 1 || work < SMALL { job(0) } else { pool.run(job) }
}

/// Parts that each thread takes at least of many small tasks: one by one, threads would wait for each other.
const TAKEN: usize = 4;

/// How many of `tasks` small tasks a thread takes at once.
pub(crate) fn at_once(pool: &Pool, tasks: usize) -> usize {
    (tasks / (TAKEN * pool.threads())).max(1)
}

/// Cosines and sines of one rotary embedding for all rows of a batch.
pub(crate) struct Angles {
    pairs: usize,
    /// For each row of the batch, `pairs` cosines and `pairs` sines.
    values: Box<[f32]>,
}

impl Angles {
    fn new(pairs: usize, max_rows: usize) -> Option<Angles> {
        Some(Angles { pairs, values: zeros(pairs.checked_mul(2)?.checked_mul(max_rows)?)? })
    }

    /// The rotation of a head of a row.
    pub fn rotation<'a>(
        &'a self,
        row: LiveRow,
        pairing: gleed_model::rope::Pairing,
        head: &'a mut [f32],
    ) -> Rotate<'a> {
        let (cos, sin) = self.values[row.batch * 2 * self.pairs..][..2 * self.pairs].split_at(self.pairs);
        Rotate { head, pairing, cos, sin }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn only_much_work_in_several_tasks_is_shared() {
        let mut pool = Pool::new(3).unwrap();
        for (tasks, work, threads) in [(0, SMALL, 1), (1, 100 * SMALL, 1), (2, SMALL - 1, 1), (2, SMALL, 3)] {
            let calls = AtomicUsize::new(0);
            fork(&mut pool, tasks, work, |_| {
                calls.fetch_add(1, SeqCst);
            });
            assert_eq!(calls.into_inner(), threads, "{tasks} tasks");
        }
    }
}
