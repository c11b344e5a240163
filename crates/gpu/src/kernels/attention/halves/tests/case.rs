//! Sequences whose last rows attend: what is defined for them, and what a device computes of them in every cut.

use std::ops::Range;

use gleed_model::KvType;
use gleed_model::arithmetic::{PAGE, Scoring, alibi_slope, attend_halves};
use gleed_model::groups::NO_PAGE;
use gleed_model::program::{self, KvLayer, Sight};
use half::f16;

use crate::Gpu;
use crate::cache::LayerCache;
use crate::kernels::attention::halves::{Style, source, wide};
use crate::kernels::attention::{Attention, TILE_QUERIES, merge, partial_room};
use crate::kernels::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::linear::tests::emulation::with_plain_halves;
use crate::linear::tests::support::{Random, Written, setup};
use crate::linear::{HalfRows, half_units};
use crate::step::{Counts, Items, NEAR_ROWS, Pieces, header, is_wide};
use crate::testing::{self, buffer, kernels, read};
use crate::units::fragments::{Fragments, Room};

/// Words of a row in these tests: token, position, pages, page, source, length, and pages and page of a second group.
pub(super) const ROW_WORDS: usize = 8;

/// Outlooks of a step in these tests: plain attention, and any other.
pub(super) const OUTLOOKS: usize = 2;

/// Words of an item.
const ITEM_WORDS: usize = 6;

/// One sequence whose last rows attend.
pub(super) struct Case {
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
    pub(super) values: Vec<f16>,
}

impl Case {
    pub(super) fn new(shape: KvLayer, group: usize, first: usize, rows: usize) -> Case {
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
    pub(super) fn with(self, options: impl Fn(program::Attention) -> program::Attention) -> Case {
        Case { attention: options(self.attention), ..self }
    }

    pub(super) fn with_sinks(self) -> Case {
        let sinks = Some(Random(11).floats(self.heads).iter().map(|sink| sink * 3.0).collect());
        Case { sinks, ..self }
    }

    /// With the kernels for keys of many dimensions.
    pub(super) fn with_wide_kernels(self) -> Case {
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
    pub(super) fn step(&self, kind: Items, cut: Cut) -> (Buffer, Pieces) {
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
                words[header::near(outlook) + i * ITEM_WORDS..][..ITEM_WORDS].copy_from_slice(item);
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
    pub(super) fn run(&self, gpu: &Gpu, kind: Items, cut: Cut) -> Vec<f32> {
        let (step, pieces) = self.step(kind, cut);
        let attention = &[pieces; OUTLOOKS];
        let counts = Counts { rows: self.rows, attention, ..Counts::default() };
        self.with_op(|op| {
            let dispatches = {
                let kernels = &mut *kernels();
                (kernels.header_words, kernels.row_words) = (header::words(OUTLOOKS), ROW_WORDS);
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
        self.wide || is_wide(self.shape)
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
                include_str!("../../../../common/lanes.wgsl"),
                include_str!("../../../../linear/tests/lanes_plain.wgsl"),
            );
            let text = if stages(&text) {
                text.replace("coopLoad<Right>(&staged_keys[at], KEY_FOURS)", "plain_key(at)")
                    .replace("coopLoadT<Right>(&staged_values[at], VALUE_FOURS)", "plain_value(at)")
                    + include_str!("../staged_plain.wgsl")
            } else {
                text
            };
            with_plain_halves(&text, subgroups, "step[0u]")
        });
        kernels.dispatch(source, Grid::Items { outlook: op.outlook, kind, each })
    }

    /// The op with buffers of its own.
    pub(super) fn with_op<T>(&self, use_it: impl FnOnce(Attention) -> T) -> T {
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
pub(super) enum Cut {
    All,
    Spans,
}

/// Whether the subgroups of a kernel share keys and values in workgroup memory.
pub(super) fn stages(text: &str) -> bool {
    text.contains("var<workgroup> staged_keys")
}

pub(super) const CUTS: [(&str, Items, Cut); 5] = [
    ("rows with their spans", Items::Whole, Cut::All),
    ("single spans", Items::Split, Cut::All),
    ("rows together", Items::Tiles, Cut::All),
    ("rows together, single spans", Items::Tiles, Cut::Spans),
    ("a row with its spans", Items::Near, Cut::All),
];

pub(super) fn check(case: &Case) {
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
