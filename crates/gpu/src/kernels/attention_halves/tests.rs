//! Every way to cut the work against the definition, and against each other bit for bit. On a device without matrix units
//! they are emulated.

use gleed_model::KvType;
use gleed_model::arithmetic::{PAGE, Scoring, attend_halves};
use gleed_model::program::{self, KvLayer};
use half::f16;

use super::{Style, source};
use crate::cache::LayerCache;
use crate::kernels::attention::{Attention, merge, partial_room};
use crate::kernels::{Dispatch, Grid, Kernels, List, Place};
use crate::linear::tests::emulation::with_plain_halves;
use crate::linear::tests::support::{Random, Written, buffer, read, setup};
use crate::linear::{HalfRows, half_units};
use crate::step::{Counts, Items, header};
use crate::{Gpu, spirv};

/// Words of a row in these tests: token, position, pages, page, source, length.
const ROW_WORDS: usize = 6;

/// Words of an item.
const ITEM_WORDS: usize = 6;

/// One sequence whose last rows attend.
struct Case {
    shape: KvLayer,
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
        Case { shape, heads, first, rows, pages, queries, keys, values }
    }

    fn key(&self, head: usize, position: usize) -> &[f16] {
        let at = head * self.pages.len() * PAGE + position;
        &self.keys[at * self.shape.key_dim..][..self.shape.key_dim]
    }

    fn value(&self, head: usize, position: usize) -> &[f16] {
        let at = head * self.pages.len() * PAGE + position;
        &self.values[at * self.shape.value_dim..][..self.shape.value_dim]
    }

    fn scale(&self) -> f32 {
        1.0 / (self.shape.key_dim as f32).sqrt()
    }

    /// `[row][head][value]`
    fn truth(&self) -> Vec<f32> {
        let queries = self.queries.chunks(self.shape.key_dim).enumerate();
        let results = queries.map(|(i, query)| {
            let (row, head) = (i / self.heads, i % self.heads / (self.heads / self.shape.heads));
            let scoring = Scoring { scale: self.scale(), ..Scoring::default() };
            attend_halves(
                query,
                scoring,
                0..self.first + row + 1,
                |p| self.key(head, p),
                |p| self.value(head, p),
            )
        });
        results.flatten().collect()
    }

    /// The words of one of its stored vectors, and where each is, in words of four.
    fn cache(&self, gpu: &Gpu) -> LayerCache {
        let KvLayer { heads, key_dim, value_dim } = self.shape;
        let pages = 2 * self.pages.len() + 1;
        let (key_units, value_units) = (key_dim.div_ceil(8), value_dim.div_ceil(8));
        // What others have written there is anything, also what is not a number.
        let mut keys = vec![f16::NAN; pages * heads * PAGE * key_units * 8];
        let mut values = vec![f16::INFINITY; pages * heads * PAGE * value_units * 8];
        for position in 0..self.first + self.rows {
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
            buffer(gpu, &words, wgpu::BufferUsages::STORAGE)
        };
        let (keys, values) = (stored(&keys), stored(&values));
        LayerCache { group: 0, shape: self.shape, kind: KvType::F16, keys, values }
    }

    fn spans(&self, row: usize) -> usize {
        (self.first + row) / PAGE + 1
    }

    /// The step that says how the work is cut, and how many there are of everything.
    fn step(&self, gpu: &Gpu, kind: Items, cut: Cut) -> (wgpu::Buffer, Counts) {
        let mut words = vec![0u32; header::WORDS];
        words[header::ROWS] = header::WORDS as u32;
        let pages = (header::WORDS + self.rows * ROW_WORDS) as u32;
        for row in 0..self.rows {
            words.extend([0, (self.first + row) as u32, pages, 0, row as u32, 0]);
        }
        words.extend(&self.pages);
        let (mut items, mut merges, mut partials) = (vec![], vec![], 0);
        let position = |row: usize| (self.first + row + 1) as u32;
        let all_spans = self.spans(self.rows - 1) as u32;
        match (kind, cut) {
            (Items::Tiles, Cut::All) => items.push([0, self.rows as u32, 0, all_spans, 0, 0]),
            (Items::Tiles, Cut::Spans) => {
                let rows = self.rows as u32;
                items.extend((0..all_spans).map(|span| [0, rows, span, span + 1, span, all_spans]));
                merges.extend(
                    (0..self.rows).map(|row| [row as u32, row as u32 * all_spans, self.spans(row) as u32]),
                );
            }
            (Items::Near | Items::Whole, _) => {
                let item = |row: usize| [row as u32, position(row), pages, 0, self.spans(row) as u32, 0];
                items.extend((0..self.rows).map(item));
            }
            _ => {
                for row in 0..self.rows {
                    let spans = self.spans(row);
                    merges.push([row as u32, partials, spans as u32]);
                    for span in 0..spans {
                        let page = self.pages[span];
                        items.push([row as u32, position(row), page, span as u32, span as u32 + 1, partials]);
                        partials += 1;
                    }
                }
            }
        }
        if kind == Items::Near {
            for (i, item) in items.iter().enumerate() {
                words[header::near(0) + i * ITEM_WORDS..][..ITEM_WORDS].copy_from_slice(item);
            }
        } else {
            words[header::ITEMS + 2 * kind as usize] = words.len() as u32;
            words.extend(items.iter().flatten());
        }
        words[header::MERGES] = words.len() as u32;
        words.extend(merges.iter().flatten());
        let mut counts = Counts { rows: self.rows, merges: merges.len(), ..Counts::default() };
        counts.items[kind as usize] = items.len();
        let words: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
        (buffer(gpu, &words, wgpu::BufferUsages::STORAGE), counts)
    }

    /// What a device computes of it. What it writes of the first row as halves must be the halves of that.
    fn run(&self, gpu: &Gpu, kind: Items, cut: Cut) -> Vec<f32> {
        let (step, counts) = self.step(gpu, kind, cut);
        self.with_op(gpu, |op| {
            let mut kernels = Kernels::new(gpu.clone(), ROW_WORDS);
            let attend = if half_units(&gpu.info) {
                super::halves(&mut kernels, &step, List::All, op, kind).unwrap()
            } else {
                emulated(&mut kernels, &step, op, kind)
            };
            let merge = merge(&mut kernels, &step, List::All, op).unwrap();
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for run in [&attend, &merge].into_iter().filter_map(|dispatch| dispatch.run(counts)) {
                    run.record(&mut pass).unwrap();
                }
            }
            let out = read(gpu, encoder, op.out.buffer);
            if let Some(halves) = op.written.filter(|_| kind == Items::Near || counts.merges > 0) {
                let first = &out[..op.out.width];
                Written::read(gpu, halves, first.len()).assert_groups(&format!("{kind:?}"), first);
            }
            out
        })
    }

    /// The op with buffers of its own.
    fn with_op<T>(&self, gpu: &Gpu, use_it: impl FnOnce(Attention) -> T) -> T {
        let cache = self.cache(gpu);
        let (key_width, value_width) = (self.heads * self.shape.key_dim, self.heads * self.shape.value_dim);
        let queries = buffer(gpu, &self.queries, wgpu::BufferUsages::STORAGE);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let out = buffer(gpu, &vec![7.5; self.rows * value_width], usage);
        let room = self.rows * self.pages.len() * self.heads * partial_room(self.shape.value_dim);
        let partials = buffer(gpu, &vec![f32::NAN; room], wgpu::BufferUsages::STORAGE);
        let halves = HalfRows::new(gpu, 1, value_width).unwrap();
        let place = |buffer, width| Place { buffer, offset: 0, width, stride: width };
        use_it(Attention {
            cache: &cache,
            op: program::Attention::over_all(0, self.heads, self.scale()),
            sinks: None,
            chosen: None,
            query: place(&queries, key_width),
            out: place(&out, value_width),
            partials: &partials,
            rows: 64,
            integers: None,
            written: self.shape.value_dim.is_multiple_of(32).then_some(&halves),
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

fn emulated(kernels: &mut Kernels, step: &wgpu::Buffer, op: Attention, kind: Items) -> Dispatch {
    // Without more workgroup memory than emulation leaves.
    let (source, each) = source(8192, step, List::All, op, kind, Style::Loops);
    let source = source.on_units().with_text(|text| {
        let subgroups = text.split("const SUBGROUPS = ").nth(1).and_then(|rest| rest.split('u').next());
        let subgroups = subgroups.and_then(|count| count.parse().ok()).expect("a number of subgroups");
        let text = ["f", "g", "c", "j"]
            .iter()
            .fold(text, |text, index| text.replace(&format!("number[{index}]"), index));
        let text =
            text.replace(include_str!("../lanes.wgsl"), include_str!("../../linear/tests/lanes_plain.wgsl"));
        with_plain_halves(&text, subgroups, "step[0u]")
    });
    kernels.dispatch(source, Grid::Items(kind, each)).unwrap()
}

const CUTS: [(&str, Items, Cut); 5] = [
    ("a row with its spans", Items::Near, Cut::All),
    ("rows with their spans", Items::Whole, Cut::All),
    ("single spans", Items::Split, Cut::All),
    ("rows together", Items::Tiles, Cut::All),
    ("rows together, single spans", Items::Tiles, Cut::Spans),
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
        assert_eq!(bits(first), bits(&got), "{what} differs");
    }
}

/// The kernels that devices with matrix units are given can be translated for them.
#[test]
fn every_kernel_is_completed() {
    let (gpu, ..) = setup();
    for key_dim in [64, 40, 256] {
        let case = Case::new(KvLayer { heads: 2, key_dim, value_dim: 128 }, 3, 1, 1);
        for kind in [Items::Near, Items::Whole, Items::Few, Items::Split, Items::Tiles] {
            let (step, _) = case.step(gpu, kind, Cut::All);
            case.with_op(gpu, |op| {
                let (source, _) = source(32 << 10, &step, List::All, op, kind, Style::WrittenOut);
                let text = source.on_units().size("ROW_WORDS", ROW_WORDS).finish().text;
                assert_eq!(spirv::translate(&text).err(), None, "{kind:?}, {key_dim} dimensions");
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
    // A software GPU's compiler loses lanes where there are several chunks of values.
    let value_dim = if half_units(&setup().0.info) { 72 } else { 56 };
    check(&Case::new(KvLayer { heads: 1, key_dim: 40, value_dim }, 20, 4 * PAGE + 5, 3));
}

/// A value that is not a number makes those rows so that see it, and no other.
#[test]
fn values_that_are_not_seen_do_not_count() {
    let (gpu, ..) = setup();
    let mut case = Case::new(KvLayer { heads: 1, key_dim: 32, value_dim: 64 }, 1, 60, 3);
    let last = 61 * 64;
    case.values[last + 5] = f16::INFINITY;
    for (what, kind, cut) in CUTS {
        let got = case.run(gpu, kind, cut);
        assert!(got[..64].iter().all(|x| x.is_finite()), "{what}: the row before sees it");
        assert!(!got[64 + 5].is_finite() && !got[128 + 5].is_finite(), "{what}: it is not seen");
    }
}
