//! How attention over keys of many dimensions is cut into workgroups for `halves_wide.wgsl`.

use gleed_model::program::KvLayer;

use super::{QUERIES, Style, kernel_source, numbers, values};
use crate::kernels::attention::{Attention, TILE_QUERIES};
use crate::kernels::{List, Source};
use crate::launch::Buffer;
use crate::step::Items;
use crate::template::{Values, expand};
use crate::units::fragments::Room;

/// Products that have the positions of a span.
const PRODUCTS: usize = 4;

/// Chunks of 64 values of which a subgroup keeps the results.
const MOST_CHUNKS: usize = 2;

/// Vectors of keys that a lane asks for ahead.
const VECTORS_AHEAD: usize = 12;

/// What a workgroup has.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Teams, of which each has 16 queries.
    teams: usize,
    /// Spans that a team has at once, and subgroups that share each of them.
    spans: usize,
    parts: usize,
}

impl Cut {
    /// That which needs least memory.
    const LEAST: Cut = Cut { teams: 1, spans: 1, parts: PRODUCTS };

    /// For a kind of items that have `queries` queries.
    fn of(room: Room, shape: KvLayer, kind: Items, queries: usize) -> Cut {
        // Two teams read the same keys and values at about the same time. Where workgroups are few, more of them are better.
        let teams = queries.div_ceil(QUERIES).min(2);
        let large = Cut { teams: 1, spans: 4, parts: 2 };
        let wanted = match kind {
            Items::Near => large,
            Items::Few => Cut::LEAST,
            Items::Split => Cut { teams, ..Cut::LEAST },
            Items::Whole if teams == 1 => large,
            Items::Whole | Items::Tiles => Cut { teams, spans: 2, parts: 2 },
        };
        let smaller = [Cut { teams: 1, ..wanted }, Cut { teams: 1, spans: wanted.spans.min(2), ..wanted }];
        let mut all = [wanted].into_iter().chain(smaller);
        all.find(|cut| cut.fits(room, shape)).unwrap_or(Cut::LEAST)
    }

    /// Subgroups of a team.
    fn team(self) -> usize {
        self.spans * self.parts
    }

    fn subgroups(self) -> usize {
        self.teams * self.team()
    }

    /// Products of a subgroup for the positions of a span.
    fn products(self) -> usize {
        PRODUCTS / self.parts
    }

    /// Groups of 32 dimensions whose keys are asked for ahead.
    fn ahead(self, shape: KvLayer) -> usize {
        let most = (VECTORS_AHEAD / (2 * self.products())).max(2);
        let groups = shape.key_dim.div_ceil(32);
        (2..=most).rev().min_by_key(|ahead| groups.next_multiple_of(*ahead)).unwrap_or(1)
    }

    /// Groups of dimensions that queries are filled up to.
    fn groups(self, shape: KvLayer) -> usize {
        shape.key_dim.div_ceil(32).next_multiple_of(self.ahead(shape))
    }

    /// Whether a workgroup has room for it: for queries, weights, largest scores and sums.
    fn fits(self, room: Room, shape: KvLayer) -> bool {
        let sums = 1 + (self.parts - 1) * self.products();
        let bytes = self.groups(shape) * 1024 + self.spans * (2048 + 64 * self.parts + 64 + 256 * sums);
        room.subgroups(self.subgroups(), 0, self.teams * bytes) == self.subgroups()
    }
}

/// Whether there is room for the queries of 16 heads or rows.
pub(super) fn fits(room: Room, shape: KvLayer) -> bool {
    Cut::LEAST.fits(room, shape)
}

/// The kernel for a kind of items, and workgroups for each of them.
pub(super) fn source(
    room: Room,
    step: Buffer,
    list: List,
    op: Attention,
    kind: Items,
    style: Style,
) -> (Source, u32) {
    let shape = op.cache.shape;
    let rows = if kind == Items::Tiles { (TILE_QUERIES / op.group()).max(1) } else { 1 };
    let queries = rows * op.group();
    let cut = Cut::of(room, shape, kind, queries);
    let query_parts = queries.div_ceil(QUERIES * cut.teams);
    let subgroups = cut.subgroups();
    let chunks = shape.value_dim.div_ceil(64 * cut.team()).min(MOST_CHUNKS);
    let value_blocks = shape.value_dim.div_ceil(64 * cut.team() * chunks);
    let targets = match kind {
        Items::Near | Items::Whole => &["out"][..],
        Items::Few | Items::Split => &["partials"],
        Items::Tiles => &["out", "partials"],
    };
    let unrolled = values(&op, kind, queries <= QUERIES / 2, subgroups)
        .switch("STAGED", false)
        .switch("TILES", kind == Items::Tiles)
        .switch("SINKED", op.sinks.is_some() && !matches!(kind, Items::Few | Items::Split))
        .list("TARGETS", targets);
    let unrolled = style.wide_values(unrolled, cut, shape, chunks);
    // A lane's sixteen values are neighbours: four stores instead of sixteen.
    let quads = shape.value_dim.is_multiple_of(16)
        && (op.out.offset | op.out.stride).is_multiple_of(4)
        && op.out.buffer != op.query.buffer;
    let unrolled = unrolled.switch("QUADS", quads);
    let kernel = [include_str!("../halves_wide_parts.wgsl"), include_str!("../halves_wide.wgsl")];
    let text = [include_str!("../halves.wgsl"), &kernel.concat()].concat();
    let element = if quads { "vec4<f32>" } else { "f32" };
    let source = kernel_source(&expand(&text, &unrolled), step, list, op, kind, element)
        .size("SUBGROUPS", subgroups)
        .size("TEAMS", cut.teams)
        .size("SPANS", cut.spans)
        .size("PARTS", cut.parts)
        .size("MATRICES", cut.products())
        .size("QUERY_GROUPS", cut.groups(shape))
        .size("QUERY_PARTS", query_parts)
        .size("KEYS_AHEAD", cut.ahead(shape))
        .size("VALUE_BLOCKS", value_blocks)
        .size("CHUNKS", chunks)
        .read("values", "vec4<u32>", op.cache.values);
    let source = match op.written {
        Some(halves) if kind == Items::Near => source
            .size("WRITTEN_FACTORS", 4 * halves.group_factors())
            .write("written", "u32", halves.buffer()),
        _ => source,
    };
    (source, (shape.heads * query_parts * value_blocks) as u32)
}

impl Style {
    /// What is there several times: groups of dimensions, products of a subgroup and of a span, chunks of values.
    fn wide_values(self, values: Values, cut: Cut, shape: KvLayer, chunks: usize) -> Values {
        let (ahead, products) = (cut.ahead(shape), cut.products());
        let of_queries = cut.groups(shape).div_ceil(cut.team());
        let queries = ["near_first", "near_second", "far_first", "far_second"]
            .map(|name| self.declared(name, "vec4<f32>", &[of_queries], "vec4<f32>()"));
        let totals = ["near_total", "far_total"]
            .map(|name| self.declared(name, "vec4<f32>", &[chunks, PRODUCTS], "vec4<f32>()"));
        let scores = ["near_scores", "far_scores"]
            .map(|name| self.declared(name, "vec4<f32>", &[products], "vec4<f32>()"));
        let keys = ["near_keys", "far_keys"]
            .map(|name| self.declared(name, "vec4<u32>", &[ahead, products], "vec4<u32>()"));
        let lane_values = "array<vec4<u32>, 4>";
        let loads = self.declared("lane_values", lane_values, &[PRODUCTS], &format!("{lane_values}()"));
        let several = [
            ("QUERY", "QUERYGROUPS", "g", of_queries),
            ("POSITION", "POSITIONS", "f", PRODUCTS),
            ("OWN", "OWNPOSITIONS", "f", products),
            ("KEY", "KEYGROUPS", "g", ahead),
            ("VALUE", "VALUECHUNKS", "c", chunks),
            ("WORD", "WORDS", "j", 4),
        ];
        // The words of a chunk's values one by one.
        let words = ["FIRSTWORD", "SECONDWORD", "THIRDWORD", "FOURTHWORD"].into_iter().enumerate();
        let values = words.fold(values, |values, (j, name)| {
            values.set(name, if self == Style::Loops { format!("[{j}]") } else { format!("_{j}") })
        });
        self.lists(values, &several)
            .set("NUMBERS", numbers(ahead.max(of_queries).max(PRODUCTS)))
            .set("NOQUERIES", queries.concat())
            .set("SCORES", scores.concat())
            .set("NOLOADS", keys.concat() + &loads)
            .set("TOTALS", totals.concat())
            .set("ALLTEAMS", self == Style::Loops)
            .switch("BRANCHES", self == Style::WrittenOut)
            .set("NOPRODUCTS", self.declared("product", "Sums", &[products], "no_sums()"))
            .set("NORESULTS", self.declared("result", "Sums", &[4], "no_sums()"))
    }
}
