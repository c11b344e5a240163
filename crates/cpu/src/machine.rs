//! What all ops share while they run: kernels, threads, activations and scratch memory, all allocated
//! when the executor is made.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gleed_model::Batch;
use gleed_model::arithmetic::{BLOCK, PAGE, SUPER_BLOCK, Softmax};
use gleed_model::program::{Op, Program};

use crate::Error;
use crate::kernels::Kernels;
use crate::kernels::blocked::{BLOCK_ROWS, block_lines, chunks};
use crate::kernels::dot::DOT_ROWS;
use crate::kernels::integer::PACK_COLUMNS;
use crate::kernels::packed::{Line, PanelRoom, STREAMS};
use crate::kernels::pool::Pool;
use crate::kernels::quantize::row_words;
use crate::kernels::rope::Rotate;
use crate::kernels::shared::{Activations, BlockQueue, Boundaries, zeros};
use crate::weights::{UnpackedRows, Weight, Weights};

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
    /// The input of the linear op that is running, quantised in blocks of 32 columns.
    pub quantized: QuantizedInput,
    /// The same in blocks of 256 columns.
    pub super_quantized: QuantizedInput,
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
        let quantized = |block, columns| {
            QuantizedInput::new(kernels, block, columns, max_rows).ok_or(Error::Memory { what: buffers })
        };
        let angles = program.ropes.iter().map(|rope| Angles::new(rope.dimensions / 2, max_rows));
        let scratch = (0..pool.threads()).map(|_| Some(Mutex::new(Scratch::new(kernels, &sizes, max_rows)?)));
        Ok(Machine {
            kernels,
            activations: activations.ok_or(Error::Memory { what: buffers })?,
            rows: Vec::with_capacity(max_rows),
            angles: angles.collect::<Option<_>>().ok_or(Error::Memory { what: buffers })?,
            quantized: quantized(BLOCK, sizes.columns(BLOCK))?,
            super_quantized: quantized(SUPER_BLOCK, sizes.columns(SUPER_BLOCK))?,
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
        let quantized = self.quantized.bytes() + self.super_quantized.bytes();
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

/// The rows of an op's input in integers.
pub(crate) struct QuantizedInput {
    /// Columns per scale.
    pub block: usize,
    /// One row after the other.
    pub words: Box<[i32]>,
    /// The same in blocks of rows, where the machine has a tile unit.
    pub lines: Box<[Line]>,
}

impl QuantizedInput {
    /// Room for so many rows of at most so many columns.
    fn new(kernels: Kernels, block: usize, columns: usize, max_rows: usize) -> Option<QuantizedInput> {
        let words = row_words(columns, block).checked_mul(max_rows)?;
        let lines = kernels
            .tile_blocks(max_rows)
            .checked_mul(block_lines(columns, block))?
            .checked_mul(chunks(columns, block))?;
        Some(QuantizedInput { block, words: zeros(words)?, lines: zeros(lines)? })
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.words[..]) + size_of_val(&self.lines[..])
    }
}

/// The largest of everything in a program that scratch memory is made for.
struct Sizes {
    /// Columns of weights that are multiplied as integers, in blocks of 32 and of 256 columns.
    quantized_columns: [usize; 2],
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
            quantized_columns: [BLOCK, SUPER_BLOCK].map(|block| {
                let of_block = |w: &&Weight| w.groups.is_some_and(|groups| groups.block == block);
                largest(&mut ids.clone().map(|w| weights.get(w)).filter(of_block).map(|w| w.columns))
            }),
            decoded_columns: largest(&mut ids.map(|w| weights.get(w).columns)),
            key_dim: largest(&mut caches().map(|c| c.key_dim)),
            tile: PAGE * largest(&mut caches().map(|c| c.key_dim.max(c.value_dim))),
            group: largest(&mut groups.into_iter()),
            value_dim: largest(&mut caches().map(|c| c.value_dim)),
        }
    }
}

impl Sizes {
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
    bytes: usize,
}

/// What a tile of a linear op is unpacked and multiplied in.
pub(crate) struct TileScratch {
    /// Rows as they come from the file.
    pub rows: UnpackedRows,
    /// A tile with a lane per row.
    pub panel: PanelBuffers,
    /// What the tile unit works in.
    pub tile_unit: Box<[Line]>,
    /// How many tiles of weights the tile unit has multiplied with.
    pub tiles_multiplied: u64,
    /// `[DOT_ROWS][columns]`.
    pub floats: Box<[f32]>,
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
    fn new(kernels: Kernels, sizes: &Sizes, max_rows: usize) -> Option<Scratch> {
        let queries = ATTENTION_ROWS * sizes.group;
        let columns = sizes.columns(BLOCK).max(sizes.columns(SUPER_BLOCK));
        // The tile unit fills up its last block of rows.
        let result_rows = max_rows.checked_next_multiple_of(BLOCK_ROWS)?;
        let mut scratch = Scratch {
            tile: TileScratch {
                rows: UnpackedRows::new(columns)?,
                panel: PanelBuffers::new(columns)?,
                tile_unit: zeros(kernels.tile_scratch())?,
                tiles_multiplied: 0,
                floats: zeros(DOT_ROWS.checked_mul(sizes.decoded_columns)?)?,
            },
            results: [zeros(STREAMS.checked_mul(result_rows)?)?, zeros(STREAMS * result_rows)?],
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
        scratch.bytes = tile.rows.bytes()
            + tile.panel.bytes()
            + size_of_val(&tile.tile_unit[..])
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
