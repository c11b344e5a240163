//! Attention over pages: how rows and heads are cut into workgroups, and the merge of spans.

mod halves;
pub(crate) mod index;
mod options;

use gleed_model::{KvType, program};

use super::{Dispatch, Grid, List, Place, Source};
use crate::cache::{LayerCache, unit};
use crate::facts::Facts;
use crate::launch::{Buffer, Kernels};
use crate::linear::{HalfRows, Quantized};
use crate::step::{Items, SPAN, header};
use crate::template::{Values, expand};
pub(crate) use halves::fits;
use halves::{halves, with_sinks};
use options::with_options;

/// Threads that have the same query heads of a span.
const SPAN_TEAM: usize = 32;

/// Queries of a workgroup for several rows.
pub(super) const TILE_QUERIES: usize = 64;

/// Values of a head that a workgroup has.
pub(super) const VALUE_BLOCK: usize = 128;

/// Values of a head that a workgroup merges.
const MERGE_VALUES: usize = 64;

/// How the work for several rows is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryTiling {
    /// Query heads of a workgroup.
    head_part: usize,
    /// Workgroups for all heads that share a key head.
    parts: usize,
    /// Dimensions, or positions, that are staged at once.
    chunk: usize,
    /// Neighbouring rows of one sequence that an item may have; one when there is not enough memory for
    /// several.
    pub rows: usize,
}

impl QueryTiling {
    /// The tiling for `group` query heads per key head.
    pub fn new(facts: &Facts, group: usize) -> QueryTiling {
        let memory = facts.workgroup_memory as usize;
        // What is staged, the weights, and some numbers for each query.
        let bytes = |chunk: usize| chunk * 32 * 16 + SPAN * TILE_QUERIES * 4 + TILE_QUERIES * 32;
        let fits = [32, 16].into_iter().find(|chunk| bytes(*chunk) <= memory);
        let parts = group.div_ceil(TILE_QUERIES);
        let head_part = group.div_ceil(parts);
        let rows = if fits.is_some() { TILE_QUERIES / head_part } else { 1 };
        QueryTiling { head_part, parts, chunk: fits.unwrap_or(16), rows }
    }
}

/// One attention op.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub cache: LayerCache,
    pub op: program::Attention,
    /// By which of the step's outlooks it is cut; that of plain attention is the first.
    pub outlook: usize,
    /// One score for each query head, where there are any.
    pub sinks: Option<Buffer>,
    /// The positions that rows see, where they are chosen.
    pub chosen: Option<Place>,
    pub query: Place,
    pub out: Place,
    /// Results of single spans: `[span of a row][head][value, rounded up to quads, then maximum and sum]`.
    pub partials: Buffer,
    /// Neighbouring rows of one sequence that an item may have, at most.
    pub rows: usize,
    /// Where single rows, and those whose spans are merged, are written as integers too: the output is
    /// all columns of what the next op reads, and heads are whole groups.
    pub integers: Option<Quantized>,
    /// Where a single row is written as halves too, on the same terms.
    pub written: Option<HalfRows>,
    /// Whether it is computed in halves on matrix units.
    pub halves: bool,
}

/// Values that the partial result of one head takes, in quads: the last two are its maximum and sum.
pub(crate) fn partial_room(value_dim: usize) -> usize {
    value_dim.next_multiple_of(4) + 4
}

/// Attention of every kind of items, and the merge of spans.
pub(crate) fn attention(kernels: &mut Kernels, step: Buffer, list: List, op: Attention) -> Vec<Dispatch> {
    let mut all = Vec::new();
    if op.halves {
        let tiles = (op.rows > 1).then_some(Items::Tiles);
        for kind in [Items::Near, Items::Whole, Items::Few, Items::Split].into_iter().chain(tiles) {
            all.push(halves(kernels, step, list, op, kind));
        }
        all.push(merge(kernels, step, list, op));
        return all;
    }
    if !op.op.is_plain() {
        return vec![with_options(kernels, step, list, op)];
    }
    for kind in [Items::Near, Items::Whole] {
        all.push(row(kernels, step, list, op, kind));
    }
    for kind in [Items::Few, Items::Split] {
        all.push(span(kernels, step, list, op, kind));
    }
    if op.rows > 1 {
        all.push(tile(kernels, step, list, op));
    }
    all.push(merge(kernels, step, list, op));
    all
}

/// How quads of values are read: the text, and what the buffer is then made of.
pub(super) fn quads_of_values(kind: KvType) -> (&'static str, &'static str) {
    match kind {
        KvType::F32 => (include_str!("quad_value_f32.wgsl"), "vec4<u32>"),
        KvType::F16 => (include_str!("quad_value_f16.wgsl"), "vec2<u32>"),
        KvType::Q8_0 => (include_str!("quad_value_q8_0.wgsl"), "u32"),
    }
}

impl Attention {
    pub(super) fn group(&self) -> usize {
        self.op.heads / self.cache.shape.heads
    }

    /// Where the step says where the items of a kind begin; of those of few rows, where they are.
    pub(super) fn items(&self, kind: Items) -> usize {
        match kind {
            Items::Near => header::near(self.outlook),
            kind => header::items(self.outlook, kind),
        }
    }

    fn value_blocks(&self) -> usize {
        self.cache.shape.value_dim.div_ceil(VALUE_BLOCK)
    }

    /// Units of a stored key.
    fn units(&self) -> usize {
        self.cache.shape.key_dim.div_ceil(unit(self.cache.kind))
    }

    /// What both kernels unroll.
    pub(super) fn unrolled(&self) -> Values {
        let quads = unit(self.cache.kind) / 4;
        Values::default()
            .set("UNITQUADS", quads)
            .list("PARTS", 0..quads)
            .switch("SCALED", self.cache.kind == KvType::Q8_0)
            .switch("UNSCALED", self.cache.kind != KvType::Q8_0)
    }

    /// What both kernels for single rows need; `element` is what values are read as.
    fn single_rows(
        &self,
        kernel: &str,
        unrolled: Values,
        step: Buffer,
        list: List,
        cut: Cut,
        element: &'static str,
    ) -> Source {
        let first = if cut.early { ["EARLY", "MIDDLE"] } else { ["MIDDLE", "EARLY"] };
        let unrolled = unrolled
            .set("QUERYCOUNT", cut.queries)
            .list("QUERIES", 0..cut.queries)
            .list("POSITIONS", 0..cut.positions)
            .list("CHUNK", 0..cut.chunk)
            .list("VALUECHUNK", 0..cut.values)
            .list(first[0], 0..cut.values)
            .list(first[1], 0..0)
            .list("FOUR", ["x", "y", "z", "w"]);
        let text =
            expand(&[include_str!("key_unit.wgsl"), include_str!("chunks.wgsl"), kernel].concat(), &unrolled);
        self.source("attention of single rows", &text)
            .list(step, list)
            .size("ITEMS", cut.items)
            .size("TEAMS", cut.teams)
            .size("CHUNK", cut.chunk)
            .size("VALUE_CHUNK", cut.values)
            .size("HEAD_PARTS", cut.parts)
            .read_place("query", "QUERY_", self.query)
            .read("keys", "vec4<u32>", self.cache.keys)
            .read("values", element, self.cache.values)
    }

    /// What all kernels need.
    pub(super) fn source(&self, name: &'static str, text: &str) -> Source {
        let LayerCache { shape, kind, .. } = self.cache;
        let (key_words, key_scales) = self.cache.key_words();
        let (value_words, value_scales) = self.cache.value_words();
        Source::new(name, text)
            .snippet(include_str!("../../common/exp.wgsl"))
            .snippet(include_str!("softmax.wgsl"))
            .snippet(match kind {
                KvType::F32 => include_str!("unit_f32.wgsl"),
                KvType::F16 => include_str!("unit_f16.wgsl"),
                KvType::Q8_0 => include_str!("unit_q8_0.wgsl"),
            })
            .size("VALUE_BLOCKS", self.value_blocks())
            .size("GROUP", self.group())
            .size("HEADS", self.op.heads)
            .size("KV_HEADS", shape.heads)
            .size("KEY_DIM", shape.key_dim)
            .size("UNITS", self.units())
            .size("VALUE_DIM", shape.value_dim)
            .size("KEY_WORDS", key_words)
            .size("KEY_SCALES", key_scales)
            .size("VALUE_WORDS", value_words)
            .size("VALUE_SCALES", value_scales)
            .size("PARTIAL", partial_room(shape.value_dim))
            .float("SCALE", self.op.scale)
    }
}

/// How the work for single rows is cut.
struct Cut {
    /// Where the items begin in the step.
    items: usize,
    /// Teams of threads in a workgroup.
    teams: usize,
    /// Query heads of a team or workgroup, and workgroups for all that share a key head.
    queries: usize,
    parts: usize,
    /// Positions of a thread.
    positions: usize,
    /// Units of keys, and groups of four values, that are asked for at once.
    chunk: usize,
    values: usize,
    /// Whether the first values are asked for before there are scores.
    early: bool,
}

/// Attention of single rows over all of their spans, in one of two ways.
fn row(kernels: &mut Kernels, step: Buffer, list: List, op: Attention, kind: Items) -> Dispatch {
    let most_teams = kernels.facts.workgroup_threads as usize / SPAN;
    // Few rows do not fill the device: a workgroup for each query head, which has many spans at once.
    let (teams, most_queries) = match kind {
        Items::Near => (most_teams.min(8), 1),
        _ => (most_teams.min(4), most_teams.min(4)),
    };
    let units = op.units();
    let dimensions = units * unit(op.cache.kind);
    // Of each query: itself, for each team scores, weights and results, and what it takes to make integers of them: its
    // values, and of each four of them the largest and the sum of their bytes.
    let integers = if op.integers.is_some() { 6 * 32 } else { 0 };
    let bytes = |queries: usize| 4 * queries * (dimensions + teams * (4 * SPAN + 2) + integers);
    let memory = kernels.facts.workgroup_memory as usize;
    let most_queries = [4, 2].into_iter().find(|n| *n <= most_queries && bytes(*n) <= memory).unwrap_or(1);
    let parts = op.group().div_ceil(most_queries);
    let queries = op.group().div_ceil(parts);

    // What is asked for at once, twice that ahead. Near rows: a key of 128 dimensions and all values of a span, of which
    // half before there is a score, where values are small enough. Many rows have work enough, and shorter text.
    let (chunk, values) = if kind == Items::Near { (units.min(8), 8) } else { (units.min(2), 2) };
    let small = op.cache.kind == KvType::F16;
    let unrolled = op
        .unrolled()
        .list("QUERYTURNS", 0..(queries * dimensions).div_ceil(teams * SPAN))
        .switch("NEAR", kind == Items::Near)
        .switch("INTEGERS", op.integers.is_some())
        .switch("LISTED", kind != Items::Near);
    let items = op.items(kind);
    let (pairs, element) = match op.cache.kind {
        KvType::F32 => (include_str!("pair_f32.wgsl"), "vec2<u32>"),
        KvType::F16 => (include_str!("pair_f16.wgsl"), "u32"),
        KvType::Q8_0 => (include_str!("pair_q8_0.wgsl"), "u32"),
    };
    let cut = Cut { items, teams, queries, parts, positions: 1, chunk, values, early: small };
    let source = op
        .single_rows(include_str!("row.wgsl"), unrolled, step, list, cut, element)
        .snippet(pairs)
        .size("VALUE_PAIRS", op.cache.shape.value_dim.div_ceil(2))
        .write_place("out", "OUT_", op.out);
    let source = match op.integers {
        Some(integers) => source.put_integers(integers, 32 * queries),
        None => source,
    };
    let each = (op.cache.shape.heads * parts * op.value_blocks()) as u32;
    kernels.dispatch(source, Grid::Items { outlook: op.outlook, kind, each })
}

/// Attention of single rows over one span each, in one of two ways.
fn span(kernels: &mut Kernels, step: Buffer, list: List, op: Attention, kind: Items) -> Dispatch {
    let units = op.units();
    let dimensions = units * unit(op.cache.kind);
    // Of each query: itself, its scores and the largest of them.
    let bytes = |queries: usize| 4 * queries * (dimensions + SPAN + SPAN / 4);
    let memory = kernels.facts.workgroup_memory as usize;
    let most_queries = [4, 2].into_iter().find(|n| bytes(*n) <= memory).unwrap_or(1);
    let parts = op.group().div_ceil(most_queries);
    let queries = op.group().div_ceil(parts);
    // Where spans are few, threads have less to do one after the other; where they are many, less in all.
    let (teams, queries) = if kind == Items::Few { (queries, 1) } else { (1, queries) };
    // What is asked for at once, twice that ahead, and an eighth of a span: with all of it written out this kernel
    // took more than twice as long within a model as by itself. Where workgroups are few, the first values are
    // asked for before there are scores.
    let (chunk, values) = (units.min(2), 2);
    let early = kind == Items::Few && op.cache.kind != KvType::F32;
    let unrolled = op
        .unrolled()
        .list("QUERYTURNS", 0..(queries * dimensions).div_ceil(SPAN_TEAM))
        .list("WEIGHTTURNS", 0..(queries * SPAN / 4).div_ceil(SPAN_TEAM))
        .list("HALF", 0..8);
    let (quads, element) = quads_of_values(op.cache.kind);
    let items = op.items(kind);
    let cut = Cut { items, teams, queries, parts, positions: 2, chunk, values, early };
    let source = op
        .single_rows(include_str!("span.wgsl"), unrolled, step, list, cut, element)
        .snippet(quads)
        .size("VALUE_QUADS", op.cache.shape.value_dim.div_ceil(4))
        .write("partials", "vec2<f32>", op.partials);
    let each = (op.cache.shape.heads * parts * op.value_blocks()) as u32;
    kernels.dispatch(source, Grid::Items { outlook: op.outlook, kind, each })
}

/// The merge of spans.
pub(super) fn merge(kernels: &mut Kernels, step: Buffer, list: List, op: Attention) -> Dispatch {
    let value_dim = op.cache.shape.value_dim;
    let blocks = value_dim.div_ceil(MERGE_VALUES);
    let unrolled = Values::default()
        .list("EIGHT", 0..8)
        .list("FOUR", 0..4)
        .list("PEAKS", 0..MERGE_VALUES / 4)
        .switch("INTEGERS", op.integers.is_some())
        .switch("WRITES", op.written.is_some())
        .switch("SINKS", op.sinks.is_some())
        .switch("SINKLESS", op.sinks.is_none());
    let mut source = Source::new("merge", &expand(include_str!("merge.wgsl"), &unrolled))
        .list(step, list)
        .snippet(if op.halves { include_str!("power.wgsl") } else { include_str!("../../common/exp.wgsl") })
        .snippet(include_str!("softmax.wgsl"))
        .size("MERGES", header::merges(op.outlook))
        .size("THREADS", MERGE_VALUES)
        .size("HEADS", op.op.heads)
        .size("VALUE_DIM", value_dim)
        .size("VALUE_BLOCKS", blocks)
        .size("PARTIAL", partial_room(value_dim))
        .read("partials", "f32", op.partials)
        .write_place("out", "OUT_", op.out);
    if let Some(integers) = op.integers {
        source = source.put_integers(integers, MERGE_VALUES / 4);
    }
    if let Some(halves) = op.written {
        source = source.with_f16().snippet(include_str!("../../common/half_factor.wgsl")).put_values(halves);
    }
    if let Some(sinks) = op.sinks {
        source = with_sinks(source, sinks);
    }
    kernels.dispatch(source, Grid::Merges { outlook: op.outlook, each: (op.op.heads * blocks) as u32 })
}

/// Attention of several neighbouring rows.
fn tile(kernels: &mut Kernels, step: Buffer, list: List, op: Attention) -> Dispatch {
    let QueryTiling { head_part, parts, chunk, .. } = QueryTiling::new(&kernels.facts, op.group());
    let shape = op.cache.shape;
    let turns = shape.value_dim.min(VALUE_BLOCK).div_ceil(64);
    // Vectors that each of 128 threads stages.
    let loads = |vectors: usize| vectors.div_ceil(128);
    let aligned = (op.query.offset | op.query.stride | shape.key_dim).is_multiple_of(4)
        && op.query.buffer != op.out.buffer;
    let unrolled = op
        .unrolled()
        .list("FOUR", 0..4)
        .list("EIGHT", 0..8)
        .list("TURNS", 0..turns)
        .set("VALUETURNS", turns)
        .list("QUERYTURNS", 0..loads(SPAN * chunk / 4))
        .list("KEYTURNS", 0..loads(SPAN * chunk / unit(op.cache.kind)))
        .list("VALUELOADS", 0..loads(chunk * 64 * turns / unit(op.cache.kind)))
        .switch("ALIGNED", aligned)
        .switch("UNALIGNED", !aligned);
    let source = op
        .source("attention of several rows", &expand(include_str!("tile.wgsl"), &unrolled))
        .rows(step, list)
        .size("ITEMS", op.items(Items::Tiles))
        .size("HEAD_PART", head_part)
        .size("HEAD_PARTS", parts)
        .size("CHUNK", chunk)
        .size("VALUE_UNITS", shape.value_dim.div_ceil(unit(op.cache.kind)))
        .place("QUERY_", op.query)
        .read("query", if aligned { "vec4<f32>" } else { "f32" }, op.query.buffer)
        .read("keys", "vec4<u32>", op.cache.keys)
        .read("values", "vec4<u32>", op.cache.values)
        .write("partials", "f32", op.partials)
        .write_place("out", "OUT_", op.out);
    let each = (shape.heads * parts * op.value_blocks()) as u32;
    kernels.dispatch(source, Grid::Items { outlook: op.outlook, kind: Items::Tiles, each })
}
