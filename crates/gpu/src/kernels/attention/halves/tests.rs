//! Every way to cut the work against the definition, and against each other bit for bit. On a device without matrix units
//! they are emulated.

use std::ops::Range;

use gleed_model::KvType;
use gleed_model::arithmetic::{HALF_DIMENSIONS, PAGE, Scoring, alibi_slope, attend_halves};
use gleed_model::groups::NO_PAGE;
use gleed_model::program::{self, KvLayer, Sight};
use half::f16;

use super::{Style, source, wide};
use crate::Gpu;
use crate::cache::LayerCache;
use crate::kernels::attention::{Attention, TILE_QUERIES, merge, partial_room};
use crate::kernels::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::linear::tests::emulation::with_plain_halves;
use crate::linear::tests::support::{Random, Written, setup};
use crate::linear::tests::translation::translate_shared;
use crate::linear::{HalfRows, half_units};
use crate::step::{Counts, Items, NEAR_ROWS, Pieces, header};
use crate::testing::{self, buffer, kernels, read};
use crate::units::fragments::{Fragments, Room};
use crate::units::spirv;

/// Words of a row in these tests: token, position, pages, page, source, length, and pages and page of a second group.
const ROW_WORDS: usize = 8;

/// Outlooks of a step in these tests: plain attention, and any other.
const OUTLOOKS: usize = 2;

/// Words of an item.
const ITEM_WORDS: usize = 6;

/// One sequence whose last rows attend.
struct Case {
    shape: KvLayer,
    attention: program::Attention,
    /// One for each head, where there are any.
    sinks: Option<Vec<f32>>,
    /// Whether kernels are those for keys of many dimensions, whatever they have.
    wide: bool,
    heads: usize,
    /// The position of the first row.
    first: usize,
    rows: usize,
    /// Where each page of the sequence is.
    pages: Vec<u32>,
    queries: Vec<f32>,
    /// `[head][position][dimension]`
    keys: Vec<f16>,
    values: Vec<f16>,
}

impl Case {
    fn new(shape: KvLayer, group: usize, first: usize, rows: usize) -> Case {
        let mut random = Random(3);
        let heads = group * shape.heads;
        let pages = (first + rows).div_ceil(PAGE);
        let mut halves = |count: usize, size: f32| -> Vec<f16> {
            (0..count).map(|_| f16::from_f32(random.unit() * size)).collect()
        };
        let (keys, values) = (
            halves(shape.heads * pages * PAGE * shape.key_dim, 4.0),
            halves(shape.heads * pages * PAGE * shape.value_dim, 1.0),
        );
        let queries = random.floats(rows * heads * shape.key_dim);
        // In any order, with one between that belongs to others.
        let pages = (0..pages as u32).map(|page| (page * 2 + 1) % (2 * pages as u32 + 1)).collect();
        let attention = program::Attention::over_all(0, heads, 1.0 / (shape.key_dim as f32).sqrt());
        Case { shape, attention, sinks: None, wide: false, heads, first, rows, pages, queries, keys, values }
    }

    /// The same with options, which keep what is there.
    fn with(self, options: impl Fn(program::Attention) -> program::Attention) -> Case {
        Case { attention: options(self.attention), ..self }
    }

    fn with_sinks(self) -> Case {
        let sinks = Some(Random(11).floats(self.heads).iter().map(|sink| sink * 3.0).collect());
        Case { sinks, ..self }
    }

    /// With the kernels for keys of many dimensions.
    fn with_wide_kernels(self) -> Case {
        Case { wide: true, ..self }
    }

    /// The outlook by which it is cut, which is also the group of its pages.
    fn outlook(&self) -> usize {
        usize::from(self.attention.sight() != Sight::BACK)
    }

    fn length(&self) -> usize {
        self.first + self.rows
    }

    /// The positions that a row sees, or all of some rows.
    fn visible(&self, rows: Range<usize>) -> Range<usize> {
        let of = |row: usize| self.attention.visible(self.first + row, self.length());
        of(rows.start).start..of(rows.end - 1).end
    }

    fn key(&self, head: usize, position: usize) -> &[f16] {
        let at = head * self.pages.len() * PAGE + position;
        &self.keys[at * self.shape.key_dim..][..self.shape.key_dim]
    }

    fn value(&self, head: usize, position: usize) -> &[f16] {
        let at = head * self.pages.len() * PAGE + position;
        &self.values[at * self.shape.value_dim..][..self.shape.value_dim]
    }

    /// `[row][head][value]`
    fn truth(&self) -> Vec<f32> {
        let queries = self.queries.chunks(self.shape.key_dim).enumerate();
        let results = queries.map(|(i, query)| {
            let (row, head) = (i / self.heads, i % self.heads);
            let program::Attention { scale, soft_cap, alibi, .. } = self.attention;
            let slope = |largest| (alibi_slope(largest, head, self.heads), self.first + row);
            let sink = self.sinks.as_ref().map(|sinks| sinks[head]);
            let scoring = Scoring { scale, soft_cap, fading: alibi.map(slope), sink };
            let (kv_head, visible) = (head / (self.heads / self.shape.heads), self.visible(row..row + 1));
            attend_halves(query, scoring, visible, |p| self.key(kv_head, p), |p| self.value(kv_head, p))
        });
        results.flatten().collect()
    }

    /// The words of one of its stored vectors, and where each is, in words of four.
    fn cache(&self) -> LayerCache {
        let KvLayer { heads, key_dim, value_dim } = self.shape;
        let pages = 2 * self.pages.len() + 1;
        let (key_units, value_units) = (key_dim.div_ceil(8), value_dim.div_ceil(8));
        // What others have written there is anything, also what is not a number.
        let mut keys = vec![f16::NAN; pages * heads * PAGE * key_units * 8];
        let mut values = vec![f16::INFINITY; pages * heads * PAGE * value_units * 8];
        for position in self.visible(0..self.rows) {
            for head in 0..heads {
                let block = self.pages[position / PAGE] as usize * heads + head;
                let slot = position % PAGE;
                for unit in 0..key_units * 8 {
                    let at = ((block * key_units + unit / 8) * PAGE + slot) * 8 + unit % 8;
                    keys[at] = self.key(head, position).get(unit).copied().unwrap_or(f16::ZERO);
                }
                for unit in 0..value_units * 8 {
                    let at = ((block * PAGE + slot) * value_units + unit / 8) * 8 + unit % 8;
                    values[at] = self.value(head, position).get(unit).copied().unwrap_or(f16::ZERO);
                }
            }
        }
        let stored = |halves: &[f16]| {
            let words: Vec<f32> = halves
                .chunks(2)
                .map(|two| f32::from_bits(u32::from(two[0].to_bits()) | u32::from(two[1].to_bits()) << 16))
                .collect();
            buffer(&words)
        };
        let (keys, values) = (stored(&keys), stored(&values));
        LayerCache { group: self.outlook(), shape: self.shape, kind: KvType::F16, keys, values }
    }

    /// The spans that some rows see.
    fn spans(&self, rows: Range<usize>) -> Range<usize> {
        let visible = self.visible(rows);
        visible.start / PAGE..visible.end.div_ceil(PAGE)
    }

    /// The step that says how the work is cut, and how many there are of everything.
    fn step(&self, kind: Items, cut: Cut) -> (Buffer, Pieces) {
        let outlook = self.outlook();
        let mut words = vec![0u32; header::words(OUTLOOKS)];
        words[header::ROWS] = words.len() as u32;
        let pages = (words.len() + self.rows * ROW_WORDS) as u32;
        let of_group = |group: usize| if group == outlook { pages } else { 0 };
        for row in 0..self.rows {
            let (position, length) = ((self.first + row) as u32, self.length() as u32);
            words.extend([0, position, of_group(0), 0, row as u32, length, of_group(1), 0]);
        }
        let all = self.spans(0..self.rows);
        words.extend(vec![NO_PAGE; all.start]);
        words.extend(&self.pages[all.start..]);
        let (mut items, mut merges, mut partials) = (vec![], vec![], 0);
        match (kind, cut) {
            (Items::Tiles, _) => {
                let most = (TILE_QUERIES / (self.heads / self.shape.heads)).max(1);
                for first in (0..self.rows).step_by(most) {
                    let end = self.rows.min(first + most);
                    let (rows, all) = (end - first, self.spans(first..end));
                    if matches!(cut, Cut::All) {
                        items.push([first, rows, all.start, all.end, 0, 0]);
                        continue;
                    }
                    let spans = all.clone().zip(partials..);
                    items.extend(spans.map(|(span, at)| [first, rows, span, span + 1, at, all.len()]));
                    for row in first..end {
                        let own = self.spans(row..row + 1);
                        merges.push([row, partials + own.start - all.start, own.len()]);
                        partials += all.len();
                    }
                }
            }
            _ => {
                let most = if kind == Items::Near { NEAR_ROWS } else { usize::MAX };
                for row in 0..self.rows.min(most) {
                    let (end, spans) = (self.visible(row..row + 1).end, self.spans(row..row + 1));
                    if matches!(kind, Items::Near | Items::Whole) {
                        items.push([row, end, pages as usize, spans.start, spans.end, 0]);
                        continue;
                    }
                    merges.push([row, partials, spans.len()]);
                    for span in spans {
                        items.push([row, end, self.pages[span] as usize, span, span + 1, partials]);
                        partials += 1;
                    }
                }
            }
        }
        let items: Vec<[u32; ITEM_WORDS]> = items.iter().map(|item| item.map(|word| word as u32)).collect();
        if kind == Items::Near {
            for (i, item) in items.iter().enumerate() {
                words[header::near(outlook, 0) + i * ITEM_WORDS..][..ITEM_WORDS].copy_from_slice(item);
            }
        } else {
            words[header::items(outlook, kind)] = words.len() as u32;
            words.extend(items.iter().flatten());
        }
        words[header::merges(outlook)] = words.len() as u32;
        words.extend(merges.iter().flatten().map(|word| *word as u32));
        let mut pieces = Pieces { merges: merges.len(), ..Pieces::default() };
        pieces.items[kind as usize] = items.len();
        let words: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
        (buffer(&words), pieces)
    }

    /// What a device computes of it; of near rows, for which there is little room in a step, the first ones. What it writes of the first row as halves must be the halves of that.
    fn run(&self, gpu: &Gpu, kind: Items, cut: Cut) -> Vec<f32> {
        let (step, pieces) = self.step(kind, cut);
        let attention = &[pieces; OUTLOOKS];
        let counts = Counts { rows: self.rows, attention, ..Counts::default() };
        self.with_op(|op| {
            let dispatches = {
                let kernels = &mut *kernels();
                (kernels.first_row, kernels.row_words) = (header::words(OUTLOOKS), ROW_WORDS);
                let attend = if half_units(&gpu.info) {
                    let (source, each) = self.source(kernels.facts.room(), step, op, kind, Style::WrittenOut);
                    kernels.dispatch(source.on_units(), Grid::Items { outlook: op.outlook, kind, each })
                } else {
                    self.emulated(kernels, step, op, kind)
                };
                [attend, merge(kernels, step, List::All, op)]
            };
            testing::run(dispatches.iter().filter_map(|dispatch| dispatch.run(counts)));
            let mut out: Vec<f32> = read(op.out.buffer);
            if kind == Items::Near {
                out.truncate(NEAR_ROWS * op.out.width);
            }
            if let Some(halves) = op.written.filter(|_| kind == Items::Near || pieces.merges > 0) {
                let first = &out[..op.out.width];
                Written::read(halves, first.len()).assert_groups(&format!("{kind:?}"), first);
            }
            out
        })
    }

    fn is_wide(&self) -> bool {
        self.wide || super::is_wide(self.shape)
    }

    fn source(&self, room: Room, step: Buffer, op: Attention, kind: Items, style: Style) -> (Source, u32) {
        let source = if self.wide { wide::source } else { source };
        source(room, step, List::All, op, kind, style)
    }

    fn emulated(&self, kernels: &mut Kernels, step: Buffer, op: Attention, kind: Items) -> Dispatch {
        // Without more workgroup memory than emulation leaves, which needs less for the four subgroups of a tile.
        let memory = match kind {
            _ if self.is_wide() => 22 << 10,
            Items::Tiles => 24 << 10,
            _ => 8192,
        };
        let (source, each) = self.source(Fragments::Lanes.room(memory, 1024), step, op, kind, Style::Loops);
        let source = source.on_units().with_text(|text| {
            let subgroups = text.split("const SUBGROUPS = ").nth(1).and_then(|rest| rest.split('u').next());
            let subgroups = subgroups.and_then(|count| count.parse().ok()).expect("a number of subgroups");
            let text = ["f", "g", "c", "j"]
                .iter()
                .fold(text, |text, index| text.replace(&format!("number[{index}]"), index));
            let text = text.replace(
                include_str!("../../../common/lanes.wgsl"),
                include_str!("../../../linear/tests/lanes_plain.wgsl"),
            );
            let text = if stages(&text) {
                text.replace("coopLoad<Right>(&staged_keys[at], KEY_FOURS)", "plain_key(at)")
                    .replace("coopLoadT<Right>(&staged_values[at], VALUE_FOURS)", "plain_value(at)")
                    + include_str!("staged_plain.wgsl")
            } else {
                text
            };
            with_plain_halves(&text, subgroups, "step[0u]")
        });
        kernels.dispatch(source, Grid::Items { outlook: op.outlook, kind, each })
    }

    /// The op with buffers of its own.
    fn with_op<T>(&self, use_it: impl FnOnce(Attention) -> T) -> T {
        let cache = self.cache();
        let (key_width, value_width) = (self.heads * self.shape.key_dim, self.heads * self.shape.value_dim);
        let queries = buffer(&self.queries);
        let out = buffer(&vec![7.5; self.rows * value_width]);
        let room = self.rows * self.pages.len() * self.heads * partial_room(self.shape.value_dim);
        let partials = buffer(&vec![f32::NAN; room]);
        let halves = HalfRows::new(&mut kernels(), 1, value_width);
        let sinks = self.sinks.as_ref().map(|sinks| buffer(sinks));
        let place = |buffer, width| Place { buffer, offset: 0, width, stride: width };
        use_it(Attention {
            cache,
            op: self.attention,
            outlook: self.outlook(),
            sinks,
            chosen: None,
            query: place(queries, key_width),
            out: place(out, value_width),
            partials,
            rows: 64,
            integers: None,
            written: self.shape.value_dim.is_multiple_of(32).then_some(halves),
            halves: true,
        })
    }
}

/// How rows that attend together are cut.
#[derive(Clone, Copy)]
enum Cut {
    All,
    Spans,
}

/// Whether the subgroups of a kernel share keys and values in workgroup memory.
fn stages(text: &str) -> bool {
    text.contains("var<workgroup> staged_keys")
}

const CUTS: [(&str, Items, Cut); 5] = [
    ("rows with their spans", Items::Whole, Cut::All),
    ("single spans", Items::Split, Cut::All),
    ("rows together", Items::Tiles, Cut::All),
    ("rows together, single spans", Items::Tiles, Cut::Spans),
    ("a row with its spans", Items::Near, Cut::All),
];

fn check(case: &Case) {
    let (gpu, _, fused) = setup();
    let truth = case.truth();
    let mut first: Option<Vec<f32>> = None;
    for (what, kind, cut) in CUTS {
        let got = case.run(gpu, kind, cut);
        for (i, (got, truth)) in got.iter().zip(&truth).enumerate() {
            // The last division is within a few units of the last place. A device that rounds twice in a fused
            // multiply-add may round a weight to the half beside it.
            let most = if *fused { truth.abs() * 2f32.powi(-21) } else { 2f32.powi(-11) };
            let near = (got - truth).abs() <= most;
            assert!(near, "{what}: value {i} is {got}, not {truth}");
        }
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let first = first.get_or_insert_with(|| got.clone());
        assert_eq!(bits(&first[..got.len()]), bits(&got), "{what} differs");
    }
}

/// The kernels that devices with matrix units are given can be translated for them.
#[test]
fn every_kernel_is_completed() {
    let rooms = [Fragments::Lanes.room(48 << 10, 1024), Fragments::Shared(8).room(32 << 10, 1024)];
    let kinds = [Items::Near, Items::Whole, Items::Few, Items::Split, Items::Tiles];
    let all = |attention| program::Attention {
        window: Some(9),
        soft_cap: Some(1.0),
        alibi: Some(8.0),
        ..attention
    };
    let both_ways = |attention| program::Attention { causal: false, ..attention };
    for key_dim in [64, 40, 256, 576] {
        let case = || Case::new(KvLayer { heads: 2, key_dim, value_dim: 128 }, 3, 1, 1);
        let cases = [case(), case().with(all).with_sinks(), case().with(both_ways)];
        for (case, kind) in cases.iter().flat_map(|case| kinds.map(|kind| (case, kind))) {
            let (step, _) = case.step(kind, Cut::All);
            case.with_op(|op| {
                let [lanes, shared] = rooms.map(|room| {
                    let (source, _) = source(room, step, List::All, op, kind, Style::WrittenOut);
                    let first_row = header::words(OUTLOOKS);
                    let source = source.on_units().size("FIRST_ROW", first_row).size("ROW_WORDS", ROW_WORDS);
                    source.finish().0
                });
                assert_eq!(
                    [&lanes, &shared].map(|text| stages(text)),
                    [kind == Items::Tiles && key_dim == 64, false]
                );
                assert_eq!(spirv::translate(&lanes).err(), None, "{kind:?}, {key_dim} dimensions");
                let bytes = translate_shared(&shared);
                assert!(key_dim < 576 || bytes <= 32 << 10, "{kind:?}: {bytes} bytes");
            });
        }
    }
}

/// Several rows at positions of two spans, heads that share keys, whole groups of dimensions.
#[test]
fn every_cut_gives_what_is_defined() {
    check(&Case::new(KvLayer { heads: 2, key_dim: 64, value_dim: 64 }, 3, PAGE - 2, 4));
}

/// Dimensions that are no whole groups, more spans than subgroups at once, a part of the queries of a tile.
#[test]
fn odd_sizes_give_what_is_defined() {
    check(&Case::new(KvLayer { heads: 1, key_dim: 40, value_dim: 72 }, 20, 3 * PAGE + 5, 3));
}

/// Windows that are smaller than a span, as large and larger, which begin within a span and at its border, and the
/// spans before which are not there.
#[test]
fn windows_give_what_is_defined() {
    let window = |size| move |attention| program::Attention { window: Some(size), ..attention };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(2, 64, 64), 3, 2 * PAGE - 2, 4).with(window(5)));
    check(&Case::new(shape(1, 40, 56), 5, 3 * PAGE - 1, 3).with(window(PAGE)).with_sinks());
    check(&Case::new(shape(1, 64, 64), 8, 5 * PAGE + 60, 8).with(window(128)).with_sinks());
    check(&Case::new(shape(1, 32, 32), 1, 7 * PAGE + 9, 1).with(window(1)));
    // Some rows of a tile begin a span later than others.
    check(&Case::new(shape(1, 32, 32), 2, 3 * PAGE - 4, 10).with(window(PAGE)));
}

#[test]
fn caps_and_sinks_give_what_is_defined() {
    let capped = |attention| program::Attention { soft_cap: Some(2.5), ..attention };
    let both = |attention| program::Attention { window: Some(100), soft_cap: Some(0.7), ..attention };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(1, 64, 64), 2, PAGE - 1, 2).with(capped));
    check(&Case::new(shape(2, 24, 40), 17, 2 * PAGE + 30, 2).with(both).with_sinks());
    check(&Case::new(shape(1, 64, 64), 8, 3 * PAGE - 3, 5).with_sinks());
}

#[test]
fn chunks_both_ways_and_fading_scores_give_what_is_defined() {
    let chunks = |attention| program::Attention { chunk: Some(70), window: Some(60), ..attention };
    let fading = |attention| program::Attention { alibi: Some(8.0), ..attention };
    let both_ways = |attention| program::Attention { causal: false, ..attention };
    let near = |attention| program::Attention { causal: false, window: Some(41), ..attention };
    let all = |attention| program::Attention { soft_cap: Some(3.0), ..near(fading(attention)) };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(1, 32, 32), 2, 2 * PAGE + 9, 6).with(chunks));
    check(&Case::new(shape(1, 48, 64), 3, PAGE + 3, 4).with(fading));
    check(&Case::new(shape(3, 32, 32), 1, 0, PAGE + 2).with(both_ways));
    check(&Case::new(shape(1, 40, 32), 2, 50, 30).with(near));
    check(&Case::new(shape(1, 32, 24), 6, 60, 9).with(all).with_sinks());
}

/// Whatever the shape, the options and where the rows are.
#[test]
fn random_shapes_and_options_give_what_is_defined() {
    let mut state = 77u32;
    let mut below = |end: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % end
    };
    // A software GPU is slow, and a thread there can emulate so many products only (see `linear/tests/emulation.rs`).
    let (cases, most) = if half_units(&setup().0.info) { (16, [256, 256]) } else { (4, [70, 64]) };
    for _ in 0..cases {
        let (heads, key_dim, value_dim) = (1 + below(2), 1 + below(most[0]), 1 + below(most[1]));
        let (group, first, rows) = (1 + below(10), below(6 * PAGE), 1 + below(9));
        let window = (below(4) > 0).then(|| 1 + below(3 * PAGE));
        let chunk = (below(4) == 0).then(|| 1 + below(3 * PAGE));
        let soft_cap = (below(3) == 0).then(|| 0.5 + below(10) as f32);
        let alibi = (below(5) == 0).then_some(8.0);
        let options = |attention| program::Attention { window, chunk, soft_cap, alibi, ..attention };
        let case = Case::new(KvLayer { heads, key_dim, value_dim }, group, first, rows).with(options);
        check(&if below(2) == 0 { case.with_sinks() } else { case });
    }
}

/// A value that is not a number makes those rows so that see it, and no other.
#[test]
fn values_that_are_not_seen_do_not_count() {
    let (gpu, ..) = setup();
    // In tiles values come from workgroup memory, or from the cache.
    for (key_dim, wide) in [(32, false), (40, false), (40, true)] {
        let case = Case::new(KvLayer { heads: 1, key_dim, value_dim: 64 }, 1, 60, 3);
        let mut case = Case { wide, ..case };
        let last = 61 * 64;
        case.values[last + 5] = f16::INFINITY;
        for (what, kind, cut) in CUTS {
            let got = case.run(gpu, kind, cut);
            assert!(got[..64].iter().all(|x| x.is_finite()), "{what}: the row before sees it");
            assert!(!got[64 + 5].is_finite() && !got[128 + 5].is_finite(), "{what}: it is not seen");
        }
        // The window of the last row has left it.
        let case = case.with(|attention| program::Attention { window: Some(1), ..attention });
        for (what, kind, cut) in CUTS {
            let got = case.run(gpu, kind, cut);
            assert!(got[..64].iter().chain(&got[128..]).all(|x| x.is_finite()), "{what}: others see it");
            assert!(!got[64 + 5].is_finite(), "{what}: it is not seen");
        }
    }
}

/// Several rows for a team and two teams, more spans than a team has at once, two chunks of values for a subgroup, not all there.
#[test]
fn wide_kernels_give_what_is_defined() {
    let shape = KvLayer { heads: 1, key_dim: 72, value_dim: 296 };
    check(&Case::new(shape, 20, 3 * PAGE - 2, 5).with_wide_kernels());
}

/// Few queries, of two key heads, whose dimensions are no whole vectors.
#[test]
fn wide_kernels_with_options_give_what_is_defined() {
    let options = |attention| program::Attention {
        window: Some(100),
        soft_cap: Some(0.7),
        alibi: Some(8.0),
        ..attention
    };
    let shape = KvLayer { heads: 2, key_dim: 39, value_dim: 50 };
    check(&Case::new(shape, 3, 2 * PAGE + 30, 7).with(options).with_sinks().with_wide_kernels());
}

/// Dimensions as latent vectors have them.
#[test]
fn keys_of_many_dimensions_give_what_is_defined() {
    let on_units = half_units(&setup().0.info);
    let shape = |key_dim, value_dim| KvLayer { heads: 1, key_dim, value_dim };
    // More than a segment of linear layers, which scores know nothing of.
    check(&Case::new(shape(544, 256), 16, PAGE - 3, 5));
    if on_units {
        check(&Case::new(shape(576, 512), 16, 5 * PAGE - 3, 9));
        check(&Case::new(shape(576, 512), 128, 2 * PAGE + 7, 3));
        check(&Case::new(shape(520, 1100), 70, 3 * PAGE, 2));
    }
}

/// Workgroups with the memory that devices with units have at least have room for all that is said to be in halves.
#[test]
fn all_that_is_in_halves_has_room() {
    let of = |key_dim| KvLayer { heads: 1, key_dim, value_dim: 512 };
    for fragments in [Fragments::Lanes, Fragments::Shared(16), Fragments::Shared(8)] {
        assert!(
            (1..=HALF_DIMENSIONS).all(|key_dim| super::fits(fragments.room(32 << 10, 1024), of(key_dim)))
        );
        let small = fragments.room(16 << 10, 1024);
        assert!(super::fits(small, of(256)) && !super::fits(small, of(576)));
    }
}
