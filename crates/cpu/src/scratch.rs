//! Memory that each thread works in, made for the largest of everything in a program.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gleed_model::arithmetic::{BLOCK, LANES, PAGE, SUPER_BLOCK, Softmax};
use gleed_model::program::{Op, Program};
use gleed_model::routing::ROOM;

use crate::kernels::Kernels;
use crate::kernels::attention::Seen;
use crate::kernels::blocked::BLOCK_ROWS;
use crate::kernels::dot::DOT_ROWS;
use crate::kernels::integer::PACK_COLUMNS;
use crate::kernels::many::{laid_vectors, with_room};
use crate::kernels::packed::{PanelRoom, STREAMS};
use crate::kernels::products::{ROWS, WAITING, packed_tile_vectors, packed_vectors, tiles_together};
use crate::kernels::shared::zeros;
use crate::kernels::tile::{Line, TILE};
use crate::weights::{UnpackedRows, Way, Weight, Weights};

/// Queries of one sequence and key head whose attention is computed together (one row's, where a row has
/// more): so many that decoding a page for them is a small part of the work.
const RUN_QUERIES: usize = 192;

/// The most rows of a run, with `group` query heads to a key head.
pub(crate) fn run_rows(group: usize) -> usize {
    (RUN_QUERIES / group.max(1)).max(1)
}

/// A thread's scratch. It holds no state between uses, so a panic while it was held does not matter.
pub(crate) fn lock(scratch: &Mutex<Scratch>) -> MutexGuard<'_, Scratch> {
    scratch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The largest of everything in a program that memory is made for.
pub(crate) struct Largest {
    /// Columns of weights that are multiplied as integers, in blocks of 32 and of 256 columns.
    quantized_columns: [usize; 2],
    /// Columns of a weight or table that is decoded.
    decoded_columns: usize,
    /// Vectors of tiles of float weights that are multiplied together.
    float_vectors: usize,
    /// Columns of float weights of linear ops, and of experts.
    pub float_columns: [usize; 2],
    /// How many weights there are.
    weights: usize,
    /// Numbers that an op on one row needs room for.
    room: usize,
    key_dim: usize,
    /// Key heads.
    pub heads: usize,
    /// Query heads that share a key head.
    pub group: usize,
    pub value_dim: usize,
    /// Rows of a recurrent layer's state.
    state_rows: usize,
}

impl Largest {
    pub fn new(program: &Program, weights: &Weights) -> Largest {
        let largest = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
        let ids = 0..program.weights.len();
        let caches = || program.caches.iter();
        let groups = program.nodes.iter().filter_map(|node| match node.op {
            Op::Attention { attention, .. } => Some(attention.heads / program.caches[attention.cache].heads),
            Op::Choose { indexer, .. } => Some(indexer.heads),
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
            // A score for each position, and room to choose among them.
            Op::Choose { .. } => Some(program.context.next_multiple_of(PAGE).saturating_mul(2)),
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
                    .map(|columns| packed_tile_vectors(tiles(columns), columns)),
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

    /// Columns of weights that are multiplied as integers in such blocks.
    pub fn columns(&self, block: usize) -> usize {
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
    /// Bytes of all of it.
    pub bytes: usize,
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
            // Rows are turned into lanes `PACK_COLUMNS` columns at a time.
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
    /// One head's keys or values of a page, laid out for many queries.
    pub laid: Box<[Line]>,
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
    /// Starts `queries` queries from nothing.
    pub fn clear(&mut self, queries: usize, vectors: usize) {
        self.states[..queries].fill(Softmax::default());
        self.acc[..queries * vectors].fill(Line([0; LANES]));
    }
}

impl Scratch {
    pub fn new(kernels: Kernels, sizes: &Largest, max_rows: usize) -> Option<Scratch> {
        let columns = sizes.columns(BLOCK).max(sizes.columns(SUPER_BLOCK));
        // Every row may have a remainder, and the tile unit fills up its last block of rows.
        let result_rows = max_rows.checked_mul(2)?.checked_next_multiple_of(BLOCK_ROWS)?;
        let queries = run_rows(sizes.group) * sizes.group;
        let room = with_room(queries);
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
                floats: zeros(DOT_ROWS.max(TILE).checked_mul(sizes.decoded_columns)?)?,
                packed: zeros(sizes.float_vectors)?,
                packed_rows: zeros(packed_vectors(ROWS, sizes.float_columns[1]))?,
                sums: zeros(WAITING)?,
            },
            results: [zeros(STREAMS.checked_mul(result_rows)?)?, zeros(STREAMS * result_rows)?],
            attention: AttentionScratch {
                page: PageScratch {
                    rows: zeros(queries * sizes.key_dim)?,
                    queries: zeros(room * sizes.key_dim)?,
                    laid: zeros(laid_vectors(sizes.key_dim, sizes.value_dim))?,
                    scales: zeros(PAGE * sizes.key_dim.max(sizes.value_dim).div_ceil(BLOCK))?,
                    scores: zeros(room * PAGE / LANES)?,
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
            + size_of_val(&attention.page.laid[..])
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
