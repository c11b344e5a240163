//! What all ops share while they run: kernels, threads, activations and scratch memory, all allocated
//! when the executor is made.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gleed_model::Batch;
use gleed_model::arithmetic::{PAGE, Softmax};
use gleed_model::program::{Op, Program};

use crate::Error;
use crate::kernels::Kernels;
use crate::kernels::blocked::{BLOCK_ROWS, TILE_SCRATCH, block_lines};
use crate::kernels::dot::DOT_ROWS;
use crate::kernels::integer::{Running, TILE};
use crate::kernels::packed::Line;
use crate::kernels::pool::Pool;
use crate::kernels::quantize::row_words;
use crate::kernels::rope::Rotate;
use crate::kernels::shared::{Activations, BlockQueue, Boundaries, zeros};
use crate::weights::Weights;

/// Columns of a tile that are unpacked at once: a multiple of every block length, and so few that the
/// unpacked panel, the packed one and the bytes fetched ahead share the innermost cache.
pub(crate) const PANEL: usize = 512;

/// Columns from row to row of an unpacked panel. A little more than the panel: rows at a distance of a
/// power of two would compete for the same places of the innermost cache.
pub(crate) const STRIDE: usize = PANEL + 64;

/// Rows of one sequence whose attention is computed together, so that a page is read once for them.
pub(crate) const ATTENTION_ROWS: usize = 8;

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
    /// Quantised inputs of the linear op that is running, one row after the other.
    pub quantized: Box<[i32]>,
    /// The same in blocks of rows, where the machine has a tile unit.
    pub blocked: Box<[Line]>,
    /// One for each thread.
    pub scratch: Vec<Mutex<Scratch>>,
    /// The live rows as one part.
    pub whole: Boundaries,
    /// The live rows in runs of one sequence.
    pub runs: Boundaries,
}

/// A row that ops see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveRow {
    /// Its index in the batch.
    pub batch: usize,
    pub table: u32,
    pub position: usize,
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
    ) -> Result<Machine, Error> {
        let sizes = Sizes::new(program, weights);
        let buffers = "the activations";
        let activations = Activations::new(program.buffers.iter().map(|b| b.width), max_rows);
        let words = row_words(sizes.quantized_columns).checked_mul(max_rows);
        let blocks = kernels.tile_rows(max_rows) / BLOCK_ROWS;
        let blocked = blocks.checked_mul(block_lines(sizes.quantized_columns)).and_then(zeros);
        let angles = program.ropes.iter().map(|rope| Angles::new(rope.dimensions / 2, max_rows));
        let scratch = (0..pool.threads()).map(|_| Some(Mutex::new(Scratch::new(&sizes, max_rows)?)));
        Ok(Machine {
            kernels,
            activations: activations.ok_or(Error::Memory { what: buffers })?,
            rows: Vec::with_capacity(max_rows),
            angles: angles.collect::<Option<_>>().ok_or(Error::Memory { what: buffers })?,
            quantized: words.and_then(zeros).ok_or(Error::Memory { what: buffers })?,
            blocked: blocked.ok_or(Error::Memory { what: buffers })?,
            scratch: scratch.collect::<Option<_>>().ok_or(Error::Memory { what: "the threads' buffers" })?,
            whole: Boundaries::with_capacity(1),
            runs: Boundaries::with_capacity(max_rows),
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
            token: row.token as usize,
        }));
        self.rows_changed();
        let (rows, count) = (&self.rows, self.rows.len());
        for (angles, rope) in self.angles.iter_mut().zip(&program.ropes) {
            let pairs = angles.pairs;
            let queue = BlockQueue::new(&mut angles.values[..count * 2 * pairs], count, 2 * pairs);
            // A sine costs about as much as a few dozen multiplications.
            fork(&mut self.pool, count * pairs * 32, |_| {
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
        for end in 1..=self.rows.len() {
            let start = self.runs.end();
            let ends = self.rows.get(end).is_none_or(|next| next.table != self.rows[start].table);
            if ends || end - start == ATTENTION_ROWS {
                self.runs.push(end);
            }
        }
    }

    /// Bytes of everything allocated here.
    pub fn bytes(&self) -> usize {
        let angles: usize = self.angles.iter().map(|a| size_of_val(&a.values[..])).sum();
        let scratch: usize = self.scratch.iter().map(|s| lock(s).bytes).sum();
        let quantized = size_of_val(&self.quantized[..]) + size_of_val(&self.blocked[..]);
        self.activations.bytes() + quantized + angles + scratch
    }
}

/// Runs a job that takes its work from a queue: on all threads, or on this one when the work is small.
pub(crate) fn fork(pool: &mut Pool, work: usize, job: impl Fn(usize) + Sync) {
    if work < SMALL { job(0) } else { pool.run(job) }
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
struct Sizes {
    /// Columns of a weight that is multiplied as integers.
    quantized_columns: usize,
    /// Columns of a weight or table that is decoded.
    decoded_columns: usize,
    key_dim: usize,
    /// Values of a page of one head.
    tile: usize,
    /// Query heads that share a key head.
    group: usize,
    value_dim: usize,
}

impl Sizes {
    fn new(program: &Program, weights: &Weights) -> Sizes {
        let largest = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
        let ids = 0..program.weights.len();
        let caches = || program.caches.iter();
        let groups = program.nodes.iter().filter_map(|node| match node.op {
            Op::Attention { cache, heads, .. } => Some(heads / program.caches[cache].heads),
            _ => None,
        });
        Sizes {
            quantized_columns: largest(
                &mut ids.clone().map(|w| weights.get(w)).filter(|w| w.groups.is_some()).map(|w| w.columns),
            ),
            decoded_columns: largest(&mut ids.map(|w| weights.get(w).columns)),
            key_dim: largest(&mut caches().map(|c| c.key_dim)),
            tile: PAGE * largest(&mut caches().map(|c| c.key_dim.max(c.value_dim))),
            group: largest(&mut groups.into_iter()),
            value_dim: largest(&mut caches().map(|c| c.value_dim)),
        }
    }
}

/// Memory that one thread works in.
pub(crate) struct Scratch {
    pub tile: TileScratch,
    /// Results of a tile `[row][TILE]`; a gated op needs two.
    pub results: [Box<[[f32; TILE]]>; 2],
    pub attention: AttentionScratch,
    /// One head.
    pub head: Box<[f32]>,
    bytes: usize,
}

/// What a tile of a linear op is unpacked, packed and summed in.
pub(crate) struct TileScratch {
    /// `[TILE][STRIDE / 4]`, four columns to a word.
    pub integers: Box<[i32]>,
    /// `[TILE][PANEL / 16]`.
    pub scales: Box<[f32]>,
    /// `[TILE][PANEL / 16]`.
    pub mins: Box<[f32]>,
    /// `[PANEL / 4][TILE]`.
    pub packed: Box<[[i32; TILE]]>,
    /// `[PANEL / 16][TILE]`.
    pub packed_scales: Box<[[f32; TILE]]>,
    /// `[PANEL / 16][TILE]`.
    pub packed_mins: Box<[[f32; TILE]]>,
    /// A whole tile for the tile unit: `[columns / 4][TILE]`.
    pub tile_integers: Box<[Line]>,
    /// `[columns / 16][TILE]`.
    pub tile_scales: Box<[[f32; TILE]]>,
    /// `[columns / 32][TILE]`.
    pub tile_mins: Box<[[f32; TILE]]>,
    /// What the tile unit stores its products in.
    pub tile_products: Box<[Line]>,
    /// How many tiles of weights the tile unit has multiplied with.
    pub tiles_multiplied: u64,
    /// One per row of the batch.
    pub sums: Vec<Running>,
    /// `[DOT_ROWS][columns]`.
    pub floats: Box<[f32]>,
}

/// What attention over a run of rows is computed in; `q` counts rows times query heads of a group.
pub(crate) struct AttentionScratch {
    /// One head's page, decoded: `[PAGE][dim]`.
    pub page: Box<[f32]>,
    /// `[q][PAGE]`.
    pub scores: Box<[f32]>,
    /// `[q]`.
    pub corrections: Box<[f32]>,
    /// `[q]`.
    pub softmax: Vec<Softmax>,
    /// `[q][dim]`.
    pub sums: Box<[f32]>,
}

impl Scratch {
    fn new(sizes: &Sizes, max_rows: usize) -> Option<Scratch> {
        let queries = ATTENTION_ROWS * sizes.group;
        let mut scratch = Scratch {
            tile: TileScratch {
                integers: zeros(TILE * STRIDE / 4)?,
                scales: zeros(TILE * PANEL / 16)?,
                mins: zeros(TILE * PANEL / 16)?,
                packed: zeros(PANEL / 4)?,
                packed_scales: zeros(PANEL / 16)?,
                packed_mins: zeros(PANEL / 16)?,
                tile_integers: zeros(sizes.quantized_columns / 4)?,
                tile_scales: zeros(sizes.quantized_columns / 16)?,
                tile_mins: zeros(sizes.quantized_columns / 32)?,
                tile_products: zeros(TILE_SCRATCH)?,
                tiles_multiplied: 0,
                sums: vec![Running::default(); max_rows],
                floats: zeros(DOT_ROWS.checked_mul(sizes.decoded_columns)?)?,
            },
            results: [zeros(max_rows)?, zeros(max_rows)?],
            attention: AttentionScratch {
                page: zeros(sizes.tile)?,
                scores: zeros(queries * PAGE)?,
                corrections: zeros(queries)?,
                softmax: vec![Softmax::default(); queries],
                sums: zeros(queries * sizes.value_dim)?,
            },
            head: zeros(sizes.key_dim)?,
            bytes: 0,
        };
        let (tile, attention) = (&scratch.tile, &scratch.attention);
        scratch.bytes = size_of_val(&tile.integers[..])
            + size_of_val(&tile.scales[..])
            + size_of_val(&tile.mins[..])
            + size_of_val(&tile.packed[..])
            + size_of_val(&tile.packed_scales[..])
            + size_of_val(&tile.packed_mins[..])
            + size_of_val(&tile.tile_integers[..])
            + size_of_val(&tile.tile_scales[..])
            + size_of_val(&tile.tile_mins[..])
            + size_of_val(&tile.tile_products[..])
            + size_of_val(&tile.sums[..])
            + size_of_val(&tile.floats[..])
            + 2 * size_of_val(&scratch.results[0][..])
            + size_of_val(&attention.page[..])
            + size_of_val(&attention.scores[..])
            + size_of_val(&attention.corrections[..])
            + size_of_val(&attention.softmax[..])
            + size_of_val(&attention.sums[..])
            + size_of_val(&scratch.head[..]);
        Some(scratch)
    }
}
