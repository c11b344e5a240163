//! Attention on matrix units: how rows and heads are cut into workgroups for `halves_tile.wgsl` and
//! `halves_row.wgsl`; what keys of many dimensions need otherwise is in `wide.rs`.

use gleed_model::arithmetic::{PAGE, half_scale};
use gleed_model::program::{self, KvLayer, Sight};

use super::options::slopes;
use super::{Attention, TILE_QUERIES, VALUE_BLOCK, partial_room};
use crate::kernels::{Dispatch, Grid, List, Source};
use crate::launch::{Buffer, Kernels};
use crate::step::{Items, is_wide, pages_word};
use crate::template::{Values, expand};
use crate::units::fragments::Room;

mod wide;

#[cfg(test)]
mod tests;

/// Queries of a subgroup.
const QUERIES: usize = 16;

/// Spans of a row that a workgroup has at once, of few rows and of many, and subgroups for each: of more, threads have too few
/// registers.
const NEAR_TEAMS: usize = 2;
const WHOLE_TEAMS: usize = 1;
const TEAM: usize = 4;

/// Bytes of workgroup memory by which a team exchanges weights, their sums and the largest scores.
const TEAM_BYTES: usize = 2048 + 1024 + 256 + 256;

/// How a kernel's text is written: with loops written out, as a GPU's compiler is quick with, or with loops that a slow one
/// keeps. It computes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    WrittenOut,
    Loops,
}

/// Attention in halves of one kind of items.
pub(super) fn halves(
    kernels: &mut Kernels,
    step: Buffer,
    list: List,
    op: Attention,
    kind: Items,
) -> Dispatch {
    let (source, each) = source(kernels.facts.room(), step, list, op, kind, Style::WrittenOut);
    kernels.dispatch(source.on_units(), Grid::Items { outlook: op.outlook, kind, each })
}

/// The kernel for a kind of items, and workgroups for each of them; `room` is that of a workgroup.
pub(super) fn source(
    room: Room,
    step: Buffer,
    list: List,
    op: Attention,
    kind: Items,
    style: Style,
) -> (Source, u32) {
    let shape = op.cache.shape;
    if is_wide(shape) {
        return wide::source(room, step, list, op, kind, style);
    }
    let tiles = kind == Items::Tiles;
    let most_queries = if tiles { TILE_QUERIES } else { QUERIES };
    let parts = op.group().div_ceil(most_queries);
    let head_part = op.group().div_ceil(parts);
    let block_values = shape.value_dim.next_multiple_of(64).min(VALUE_BLOCK);
    // Results of each query, its largest score and the sum of its weights.
    let bytes = TEAM_BYTES + head_part * 4 * (block_values + 2);
    let teams = match kind {
        Items::Near => NEAR_TEAMS,
        Items::Whole => WHOLE_TEAMS,
        _ => 1,
    };
    let teams = (room.subgroups(TEAM * teams, bytes.div_ceil(TEAM), 0) / TEAM).max(1);
    let subgroups = if tiles { TILE_QUERIES / QUERIES } else { TEAM * teams };
    let entries = (head_part * block_values).div_ceil(32 * subgroups);
    let key_groups = shape.key_dim.div_ceil(32);
    let blocks = shape.value_dim.div_ceil(VALUE_BLOCK);
    let words = if tiles { 4 } else { 2 };
    let is_staged = tiles && stages(room, shape);
    // Pairs of units of keys, and units of values, that each thread of a tile brings.
    let (pairs, brought) = (shape.key_dim / 32, shape.value_dim / 16);
    let unrolled = values(&op, kind, !tiles && head_part <= QUERIES / 2, subgroups)
        .list("ENTRIES", 0..entries)
        .switch("WHOLE", shape.key_dim.is_multiple_of(32))
        .switch("PADDED", !shape.key_dim.is_multiple_of(32))
        .switch("STAGED", is_staged)
        .list("KEYPAIRS", (0..pairs).map(|i| format!("{i}u")))
        .list("VALUEUNITS", (0..brought).map(|i| format!("{i}u")));
    let unrolled = style.values(unrolled, key_groups, block_values / 64, words);
    let kernel = if tiles { include_str!("halves_tile.wgsl") } else { include_str!("halves_row.wgsl") };
    let text = [include_str!("halves.wgsl"), kernel].concat();
    let source = kernel_source(&expand(&text, &unrolled), step, list, op, kind, "f32")
        .size("SUBGROUPS", subgroups)
        .size("THREADS", 32 * subgroups)
        .size("TEAMS", teams)
        .size("HEAD_PART", head_part)
        .size("HEAD_PARTS", parts)
        .size("VALUE_BLOCKS", blocks)
        .size("BLOCK_VALUES", block_values)
        .read("values", if tiles { "vec4<u32>" } else { "vec2<u32>" }, op.cache.values);
    let source = if is_staged { source.snippet(include_str!("halves_staged.wgsl")) } else { source };
    let source = match op.written {
        Some(halves) if kind == Items::Near => source.put_values(halves),
        _ => source,
    };
    (source, (shape.heads * parts * blocks) as u32)
}

/// Whether workgroups have room for queries of such keys.
pub(crate) fn fits(room: Room, shape: KvLayer) -> bool {
    !is_wide(shape) || wide::fits(room, shape)
}

/// What all kernels unroll or leave out.
fn values(op: &Attention, kind: Items, one_side: bool, subgroups: usize) -> Values {
    let (rows, tiles) = (matches!(kind, Items::Near | Items::Whole), kind == Items::Tiles);
    let aligned = is_aligned(op);
    let values = Values::default()
        .list("SIDES", if one_side { &["near"][..] } else { &["near", "far"] })
        .switch("ONESIDE", one_side)
        .switch("BOTHSIDES", !one_side)
        .list("FOUR", 0..4)
        .set("THREADS", 32 * subgroups)
        .switch("ROWS", rows)
        .switch("SPLIT", !tiles && !rows)
        .switch("WRITES", kind == Items::Near && op.written.is_some())
        .switch("FIXED", kind == Items::Near)
        .switch("LISTED", kind != Items::Near)
        .switch("ALIGNED", aligned)
        .switch("UNALIGNED", !aligned);
    options(op).fold(values, |values, (name, on)| values.switch(name, on))
}

/// Whether queries are read as vectors.
fn is_aligned(op: &Attention) -> bool {
    (op.query.offset | op.query.stride | op.cache.shape.key_dim).is_multiple_of(4)
        && op.query.buffer != op.out.buffer
}

/// What all kernels need; `element` is what they write results as.
fn kernel_source(
    text: &str,
    step: Buffer,
    list: List,
    op: Attention,
    kind: Items,
    element: &'static str,
) -> Source {
    let shape = op.cache.shape;
    let (rows, tiles) = (matches!(kind, Items::Near | Items::Whole), kind == Items::Tiles);
    let source = Source::new("attention in halves", text)
        .rows(step, list)
        .snippet(include_str!("power.wgsl"))
        .snippet(include_str!("softmax.wgsl"))
        .snippet(include_str!("../../common/half_factor.wgsl"))
        .snippet(include_str!("../../common/lanes.wgsl"))
        .size("ITEMS", op.items(kind))
        .size("GROUP", op.group())
        .size("HEADS", op.op.heads)
        .size("KV_HEADS", shape.heads)
        .size("KEY_DIM", shape.key_dim)
        .size("KEY_GROUPS", shape.key_dim.div_ceil(32))
        .size("UNITS", shape.key_dim.div_ceil(8))
        .size("VALUE_DIM", shape.value_dim)
        .size("VALUE_UNITS", shape.value_dim.div_ceil(8))
        .size("PARTIAL", partial_room(shape.value_dim))
        .size("CACHE_PAGES", pages_word(op.cache.group))
        .float("SCALE", half_scale(op.op.scale))
        .place("QUERY_", op.query)
        .read("query", if is_aligned(&op) { "vec4<f32>" } else { "f32" }, op.query.buffer)
        .read("keys", "vec4<u32>", op.cache.keys);
    let source = with_options(source, op, rows || tiles);
    let source = if rows { source } else { source.write("partials", element, op.partials) };
    if tiles || rows { source.place("OUT_", op.out).write("out", element, op.out.buffer) } else { source }
}

/// Whether a tile's subgroups share the keys and values of a span, which they then load as matrices.
fn stages(room: Room, shape: KvLayer) -> bool {
    // Rows are eight halves longer than they are wide; and a word for each half of two spans.
    let bytes = PAGE * 2 * (shape.key_dim + 8 + shape.value_dim + 8) + 4 * 4;
    let whole = shape.key_dim.is_multiple_of(32) && shape.value_dim.is_multiple_of(64);
    whole && shape.value_dim <= VALUE_BLOCK && room.loads_fours(bytes)
}

/// Which parts of the kernels there are for the options of attention.
fn options(op: &Attention) -> impl Iterator<Item = (&'static str, bool)> {
    let program::Attention { causal, soft_cap, alibi, .. } = op.op;
    let limited = op.op.sight() != Sight::BACK;
    let (fades, has_sinks) = (alibi.is_some(), op.sinks.is_some());
    let has_scores = soft_cap.is_some() || fades;
    let all = [
        ("LIMITED", limited),
        ("UNLIMITED", !limited),
        ("CAUSAL", causal),
        ("BOTHWAYS", !causal),
        ("PLACED", limited || fades),
        ("SCORED", has_scores),
        ("PRODUCTS", !has_scores),
        ("CAPPED", soft_cap.is_some()),
        ("FADING", fades),
        ("SINKS", has_sinks),
        ("SINKLESS", !has_sinks),
    ];
    all.into_iter()
}

/// What those parts need; sinks are for kernels that write results.
fn with_options(mut source: Source, op: Attention, results: bool) -> Source {
    let program::Attention { heads, window, chunk, soft_cap, alibi, .. } = op.op;
    let most = u32::MAX as usize;
    if op.op.sight() != Sight::BACK {
        source = source.size("WINDOW", window.unwrap_or(most)).size("CHUNK", chunk.unwrap_or(most));
    }
    if let Some(cap) = soft_cap {
        source = source.float("CAP", half_scale(cap)).float("RATE", 2.0 / cap);
        source = source.snippet(include_str!("half_soft_cap.wgsl"));
    }
    if let Some(largest) = alibi {
        source = source.snippet(&slopes(largest, heads, half_scale));
    }
    match op.sinks.filter(|_| results) {
        Some(sinks) => with_sinks(source, sinks),
        None => source,
    }
}

/// The sinks of all heads, and what makes scores of them.
pub(super) fn with_sinks(source: Source, sinks: Buffer) -> Source {
    source.snippet(include_str!("half_sink.wgsl")).read("sinks", "f32", sinks)
}

/// Constants for what the variables of written out loops end with.
fn numbers(count: usize) -> String {
    (0..count).map(|i| format!("const number_{i} = {i}u;\n")).collect()
}

impl Style {
    /// What is there several times: fragments of positions, groups of dimensions, chunks of values, and words of them.
    fn values(self, values: Values, key_groups: usize, chunks: usize, words: usize) -> Values {
        let none = "left_of(vec4<f16>(), vec4<f16>())";
        let scores = [
            self.declared("near_scores", "vec4<f32>", &[4], "vec4<f32>()"),
            self.declared("far_scores", "vec4<f32>", &[4], "vec4<f32>()"),
            self.declared("weights", "Left", &[4], none),
        ];
        let queries =
            ["first_query", "second_query"].map(|name| self.declared(name, "Left", &[key_groups], none));
        let totals = ["near_total", "far_total"]
            .map(|name| self.declared(name, "vec4<f32>", &[chunks, 4], "vec4<f32>()"));
        let loads = [
            self.declared("near_keys", "vec4<u32>", &[key_groups], "vec4<u32>()"),
            self.declared("far_keys", "vec4<u32>", &[key_groups], "vec4<u32>()"),
            self.declared("lane_values", "array<vec2<u32>, 4>", &[4], "array<vec2<u32>, 4>()"),
        ];
        let most = key_groups.max(4);
        let several = [
            ("POSITION", "POSITIONS", "f", 4),
            ("KEY", "KEYGROUPS", "g", key_groups),
            ("VALUE", "VALUECHUNKS", "c", chunks),
            ("WORD", "WORDS", "j", words),
        ];
        let values = self.lists(values, &several);
        values
            .set("NUMBERS", numbers(most))
            .set("SCORES", scores.concat())
            .set("NOQUERIES", queries.concat())
            .set("NOLOADS", loads.concat())
            .set("ALLTEAMS", self == Style::Loops)
            .set("TOTALS", totals.concat())
            // Spans that all queries see have a path of their own.
            .switch("BRANCHES", self == Style::WrittenOut)
            .list("PATHS", if self == Style::WrittenOut { &["masked", ""][..] } else { &["masked"] })
            .set("NOPRODUCTS", self.declared("product", "Sums", &[4], "no_sums()"))
            .set("NORESULTS", self.declared("result", "Sums", &[words], "no_sums()"))
    }

    /// Lists of what is there several times: how many turns a loop over each has, and what its variables end with.
    fn lists(self, values: Values, several: &[(&str, &str, &str, usize)]) -> Values {
        several.iter().fold(values, |values, (name, list, index, count)| {
            let turns = format!("{}u", if self == Style::Loops { *count } else { 1 });
            let values = values.set(&format!("{name}TURNS"), turns);
            match self {
                Style::WrittenOut => values.list(list, (0..*count).map(|i| format!("_{i}"))),
                Style::Loops => values.list(list, [format!("[{index}]")]),
            }
        })
    }

    /// Variables of their own, or one array.
    fn declared(self, name: &str, kind: &str, counts: &[usize], value: &str) -> String {
        match (self, counts) {
            (Style::WrittenOut, []) => format!("var {name} = {value}; "),
            (Style::WrittenOut, [count, rest @ ..]) => {
                (0..*count).map(|i| self.declared(&format!("{name}_{i}"), kind, rest, value)).collect()
            }
            (Style::Loops, counts) => {
                let array = |(kind, value): (String, String), count: &usize| {
                    let kind = format!("array<{kind}, {count}>");
                    (kind.clone(), format!("{kind}({})", vec![value; *count].join(", ")))
                };
                let (_, value) = counts.iter().rev().fold((kind.to_string(), value.to_string()), array);
                format!("var {name} = {value}; ")
            }
        }
    }
}
