//! What all ops share while they run: kernels, threads, activations and scratch memory, all allocated
//! when the executor is made.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gleed_model::Batch;
use gleed_model::arithmetic::{BLOCK, LANES, PAGE, SPAN, SUPER_BLOCK, Softmax};
use gleed_model::program::{Op, Program};
use gleed_model::routing::ROOM;

use crate::Error;
use crate::inputs::{QuantizedInput, SlotInputs};
use crate::kernels::Kernels;
use crate::kernels::attention::{QUERIES, Seen};
use crate::kernels::blocked::BLOCK_ROWS;
use crate::kernels::dot::DOT_ROWS;
use crate::kernels::integer::PACK_COLUMNS;
use crate::kernels::packed::{PanelRoom, STREAMS};
use crate::kernels::pool::Pool;
use crate::kernels::products::{GROUP, ROWS, WAITING, packed_vectors, tiles_together};
use crate::kernels::rope::Rotate;
use crate::kernels::shared::{Activations, BlockQueue, Boundaries, zeros};
use crate::kernels::tile::{Line, TILE};
use crate::memory::Large;
use crate::weights::{UnpackedRows, Way, Weight, Weights};

/// Queries of one sequence and key head whose attention is computed together (one row's, where a row has
/// more): so many that decoding a page for them is a small part of the work.
const RUN_QUERIES: usize = 192;

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
            fork(&mut self.pool, count, count * pairs * 32, |_| {
                while let Some(mut block) = queue.next() {
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

/// The most rows of a run, of so many query heads to a key head.
fn run_rows(group: usize) -> usize {
    (RUN_QUERIES / group.max(1)).max(1)
}

/// Vectors of what is left to be merged of so many queries and one span: the accumulators
/// `[query][dim / 16]`, and for each query a vector of the largest score and the sum.
pub(crate) fn partial_vectors(queries: usize, value_dim: usize) -> usize {
    queries * (value_dim.div_ceil(LANES) + 1)
}

/// Runs a job that takes its work from a queue of tasks: on all threads, or on this one when the work is small or there
/// is only one task, for which nobody needs to be woken.
pub(crate) fn fork(pool: &mut Pool, tasks: usize, work: usize, job: impl Fn(usize) + Sync) {
    if tasks <= 1 || work < SMALL { job(0) } else { pool.run(job) }
}

/// A thread's scratch. It holds no state between uses, so a panic while it was held does not matter.
pub(crate) fn lock(scratch: &Mutex<Scratch>) -> MutexGuard<'_, Scratch> {
    scratch.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The largest of everything in a program that scratch memory is made for.
struct Largest {
    /// Columns of weights that are multiplied as integers, in blocks of 32 and of 256 columns.
    quantized_columns: [usize; 2],
    /// Columns of a weight or table that is decoded.
    decoded_columns: usize,
    /// Vectors of tiles of float weights that are multiplied together.
    float_vectors: usize,
    /// Columns of float weights of linear ops, and of experts.
    float_columns: [usize; 2],
    /// How many weights there are.
    weights: usize,
    /// Numbers that an op on one row needs room for.
    room: usize,
    key_dim: usize,
    /// Key heads.
    heads: usize,
    /// Query heads that share a key head.
    group: usize,
    value_dim: usize,
    /// Rows of a recurrent layer's state.
    state_rows: usize,
}

impl Largest {
    fn new(program: &Program, weights: &Weights) -> Largest {
        let largest = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
        let ids = 0..program.weights.len();
        let caches = || program.caches.iter();
        let groups = program.nodes.iter().filter_map(|node| match node.op {
            Op::Attention { attention, .. } => Some(attention.heads / program.caches[attention.cache].heads),
            _ => None,
        });
        // Columns of float weights, of experts or of all other linear ops.
        let floats = |of_experts: bool| {
            let nodes = program.nodes.iter().map(|node| &node.op);
            nodes
                .filter(move |op| matches!(op, Op::ExpertLinear { .. }) == of_experts)
                .flat_map(|op| op.matrices())
                .map(|id| weights.get(id))
                .filter(|weight| weight.groups.is_none())
                .map(|weight| weight.columns)
        };
        let tiles = |columns| tiles_together(columns).min(STREAMS);
        let mut rooms = program.nodes.iter().filter_map(|node| match node.op {
            Op::Route { scores, .. } => Some(ROOM * scores.width),
            Op::Gate { gate, .. } => Some(gate.width),
            _ => None,
        });
        Largest {
            quantized_columns: [BLOCK, SUPER_BLOCK].map(|block| {
                let of_block = |w: &&Weight| w.groups.is_some_and(|groups| groups.block == block);
                largest(&mut ids.clone().map(|w| weights.get(w)).filter(of_block).map(|w| w.columns))
            }),
            decoded_columns: largest(&mut ids.map(|w| weights.get(w).columns)),
            float_vectors: largest(
                &mut floats(false)
                    .chain(floats(true))
                    .map(|columns| packed_vectors(tiles(columns) * TILE, columns)),
            ),
            float_columns: [false, true].map(|of_experts| largest(&mut floats(of_experts))),
            weights: program.weights.len(),
            room: largest(&mut rooms),
            key_dim: largest(&mut caches().map(|c| c.key_dim)),
            heads: largest(&mut caches().map(|c| c.heads)),
            group: largest(&mut groups.into_iter()).max(1),
            value_dim: largest(&mut caches().map(|c| c.value_dim)),
            state_rows: largest(&mut program.states.iter().map(|state| state.rows)),
        }
    }
}

impl Largest {
    /// Columns of weights that are multiplied as integers in such blocks.
    fn columns(&self, block: usize) -> usize {
        self.quantized_columns[usize::from(block != BLOCK)]
    }
}

/// Memory that one thread works in.
pub(crate) struct Scratch {
    pub tile: TileScratch,
    /// Results of a strip, `[tile][row]`; a gated op needs two.
    pub results: [Box<[Line]>; 2],
    pub attention: AttentionScratch,
    /// One head.
    pub head: Box<[f32]>,
    /// The state of sixteen channels of a recurrent layer.
    pub state: Box<[[f32; LANES]]>,
    /// What an op on one row works in.
    pub room: Box<[f32]>,
    bytes: usize,
}

/// What a tile of a linear op is unpacked and multiplied in.
pub(crate) struct TileScratch {
    /// Rows as they come from the file.
    pub rows: UnpackedRows,
    /// Tiles with a lane per row.
    pub panels: [PanelBuffers; STREAMS],
    /// What the tile unit works in.
    pub tile_unit: Box<[Line]>,
    /// How many tiles of weights the tile unit has multiplied with.
    pub tiles_multiplied: u64,
    /// For each weight, how often it was multiplied with in each of [`Way::ALL`]: counted by the thread that
    /// has its first rows.
    pub multiplied: Box<[[u64; Way::ALL.len()]]>,
    /// Decoded rows of weights, `[DOT_ROWS][columns]`.
    pub floats: Box<[f32]>,
    /// Float weights of as many tiles as are multiplied together.
    pub packed: Box<[Line]>,
    /// A few rows that experts multiply with them.
    pub packed_rows: Box<[Line]>,
    /// Sums that wait for more columns.
    pub sums: Box<[Line]>,
}

/// An unpacked tile with a lane per row.
pub(crate) struct PanelBuffers {
    /// `[columns / 4]`.
    integers: Box<[Line]>,
    /// `[columns / 16]`.
    factors: Box<[Line]>,
    /// `[columns / 32]`.
    scales: Box<[Line]>,
    /// `[columns / 32]`.
    min_pairs: Box<[Line]>,
    /// `[columns / 32]`.
    mins: Box<[Line]>,
}

impl PanelBuffers {
    fn new(columns: usize) -> Option<PanelBuffers> {
        Some(PanelBuffers {
            // Rows are turned into lanes so many columns at a time.
            integers: zeros(columns.checked_next_multiple_of(PACK_COLUMNS)? / 4)?,
            factors: zeros(columns / 16)?,
            scales: zeros(columns / 32)?,
            min_pairs: zeros(columns / 32)?,
            mins: zeros(columns / 32)?,
        })
    }

    pub fn room(&mut self) -> PanelRoom<'_> {
        PanelRoom {
            integers: bytemuck::cast_slice_mut(&mut self.integers),
            factors: bytemuck::cast_slice_mut(&mut self.factors),
            scales: bytemuck::cast_slice_mut(&mut self.scales),
            min_pairs: bytemuck::cast_slice_mut(&mut self.min_pairs),
            mins: bytemuck::cast_slice_mut(&mut self.mins),
        }
    }

    fn bytes(&self) -> usize {
        let lines = self.integers.len() + self.factors.len();
        (lines + self.scales.len() + self.min_pairs.len() + self.mins.len()) * size_of::<Line>()
    }
}

/// What attention over a run of rows is computed in; `q` counts rows times query heads of a group.
pub(crate) struct AttentionScratch {
    pub page: PageScratch,
    /// Over the pages of a span.
    pub span: Accumulators,
    /// Over all spans so far.
    pub total: Accumulators,
}

/// What attention over one page is computed in.
pub(crate) struct PageScratch {
    /// `[q][dim]`.
    pub rows: Box<[f32]>,
    /// The same, interleaved.
    pub queries: Box<[f32]>,
    /// One head's page, decoded: `[PAGE][dim / 16]` vectors.
    pub decoded: Box<[Line]>,
    /// The scales of one head's page: `[PAGE][dim / 32]`.
    pub scales: Box<[f32]>,
    /// `[q][PAGE]`.
    pub scores: Box<[Line]>,
    /// `[q]`.
    pub seen: Box<[Seen]>,
    /// `[q]`.
    pub corrections: Box<[f32]>,
}

/// Softmax and weighted values of a run's queries.
pub(crate) struct Accumulators {
    /// `[q]`.
    pub states: Box<[Softmax]>,
    /// `[q][dim / 16]`.
    pub acc: Box<[Line]>,
}

impl Accumulators {
    /// Starts so many queries from nothing.
    pub fn clear(&mut self, queries: usize, vectors: usize) {
        self.states[..queries].fill(Softmax::default());
        self.acc[..queries * vectors].fill(Line([0; LANES]));
    }
}

impl Scratch {
    fn new(kernels: Kernels, sizes: &Largest, max_rows: usize) -> Option<Scratch> {
        let columns = sizes.columns(BLOCK).max(sizes.columns(SUPER_BLOCK));
        // Every row may have a remainder, and the tile unit fills up its last block of rows.
        let result_rows = max_rows.checked_mul(2)?.checked_next_multiple_of(BLOCK_ROWS)?;
        let queries = run_rows(sizes.group) * sizes.group;
        let value_vectors = sizes.value_dim.div_ceil(LANES);
        let accumulators = || {
            Some(Accumulators {
                states: vec![Softmax::default(); queries].into(),
                acc: zeros(queries * value_vectors)?,
            })
        };
        let mut scratch = Scratch {
            tile: TileScratch {
                rows: UnpackedRows::new(columns)?,
                panels: [
                    PanelBuffers::new(columns)?,
                    PanelBuffers::new(columns)?,
                    PanelBuffers::new(columns)?,
                    PanelBuffers::new(columns)?,
                ],
                tile_unit: zeros(kernels.tile_scratch())?,
                tiles_multiplied: 0,
                multiplied: zeros(sizes.weights)?,
                floats: zeros(DOT_ROWS.max(GROUP).checked_mul(sizes.decoded_columns)?)?,
                packed: zeros(sizes.float_vectors)?,
                packed_rows: zeros(packed_vectors(ROWS, sizes.float_columns[1]))?,
                sums: zeros(WAITING)?,
            },
            results: [zeros(STREAMS.checked_mul(result_rows)?)?, zeros(STREAMS * result_rows)?],
            attention: AttentionScratch {
                page: PageScratch {
                    rows: zeros(queries * sizes.key_dim)?,
                    queries: zeros(queries * sizes.key_dim)?,
                    decoded: zeros(PAGE * value_vectors.max(sizes.key_dim.div_ceil(LANES)))?,
                    scales: zeros(PAGE * sizes.key_dim.max(sizes.value_dim).div_ceil(BLOCK))?,
                    scores: zeros(queries * PAGE / LANES)?,
                    seen: vec![Seen::default(); queries].into(),
                    corrections: zeros(queries)?,
                },
                total: accumulators()?,
                span: accumulators()?,
            },
            head: zeros(sizes.key_dim)?,
            state: zeros(sizes.state_rows)?,
            room: zeros(sizes.room)?,
            bytes: 0,
        };
        let (tile, attention) = (&scratch.tile, &scratch.attention);
        scratch.bytes = tile.rows.bytes()
            + tile.panels.iter().map(PanelBuffers::bytes).sum::<usize>()
            + size_of_val(&tile.tile_unit[..])
            + size_of_val(&tile.floats[..])
            + size_of_val(&tile.packed[..])
            + size_of_val(&tile.packed_rows[..])
            + size_of_val(&tile.sums[..])
            + 2 * size_of_val(&scratch.results[0][..])
            + 2 * size_of_val(&attention.page.queries[..])
            + size_of_val(&attention.page.decoded[..])
            + size_of_val(&attention.page.scales[..])
            + size_of_val(&attention.page.scores[..])
            + size_of_val(&attention.page.seen[..])
            + size_of_val(&attention.page.corrections[..])
            + 2 * size_of_val(&attention.total.states[..])
            + 2 * size_of_val(&attention.total.acc[..])
            + size_of_val(&scratch.head[..])
            + size_of_val(&scratch.state[..])
            + size_of_val(&scratch.room[..]);
        Some(scratch)
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
