//! The kernels of attention over one page of keys and values, each on every instruction set that this machine has,
//! against `gleed_model::arithmetic`, bit for bit.

use crate::common::{Random, bits, comparable, each_isa, plain_quantized, without_numbers};
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::attention::{Accumulate, Page, Scores, Seen, interleave};
use gleed_cpu::kernels::many::{self, LayKeys, LayValues, ManyScores, ManyValues, laid_vectors, with_room};
use gleed_cpu::kernels::softmax::{Finish, Merge, SoftmaxTiles};
use gleed_model::KvType;
use gleed_model::arithmetic::{self, BLOCK, LANES, PAGE, Softmax};
use half::f16;

/// One head's keys or values of a page in some type: the numbers that are stored, `[position][dim]`, and
/// how they lie in memory.
struct StoredPage {
    kind: KvType,
    /// As they are decoded, `[position][dim]`.
    plain: Vec<f32>,
    floats: Vec<[f32; LANES]>,
    halves: Vec<[u16; LANES]>,
    integers: Vec<[i8; LANES]>,
    scales: Vec<f32>,
}

impl StoredPage {
    /// Random numbers, put at the places that `place(position, column)` and `scale_place(position,
    /// block)` say: vector and lane, and index. All else is NaN or the like: no kernel may use it.
    fn new(
        random: &mut Random,
        kind: KvType,
        (dim, no_numbers): (usize, bool),
        vectors: usize,
        place: impl Fn(usize, usize) -> (usize, usize),
        scale_place: impl Fn(usize, usize) -> usize,
    ) -> StoredPage {
        let mut plain = random.units(PAGE * dim);
        if no_numbers {
            without_numbers(random, &mut plain, 11 * dim);
        }
        let mut floats = vec![[f32::NAN; LANES]; vectors];
        let mut halves = vec![[f16::NAN.to_bits(); LANES]; vectors];
        let mut integers = vec![[77; LANES]; vectors];
        let groups = dim.div_ceil(BLOCK);
        let mut scales = vec![f32::NAN; PAGE * groups];
        for (position, row) in plain.chunks_mut(dim).enumerate() {
            let (q, row_scales) = plain_quantized(row, BLOCK);
            kind.round(row);
            for (block, scale) in row_scales.iter().enumerate() {
                scales[scale_place(position, block)] = f16::from_f32(*scale).to_f32();
            }
            for (column, x) in row.iter().enumerate() {
                let (vector, lane) = place(position, column);
                floats[vector][lane] = *x;
                halves[vector][lane] = f16::from_f32(*x).to_bits();
                integers[vector][lane] = q[column];
            }
        }
        StoredPage { kind, plain, floats, halves, integers, scales }
    }

    fn keys(random: &mut Random, kind: KvType, dim: usize, no_numbers: bool) -> StoredPage {
        let groups = dim.div_ceil(BLOCK);
        let place = |position, column| (position / LANES * dim + column, position % LANES);
        let scale_place = |position, block| (position / LANES * groups + block) * LANES + position % LANES;
        StoredPage::new(random, kind, (dim, no_numbers), PAGE / LANES * dim, place, scale_place)
    }

    fn values(random: &mut Random, kind: KvType, dim: usize, no_numbers: bool) -> StoredPage {
        let (vectors, groups) = (dim.div_ceil(LANES), dim.div_ceil(BLOCK));
        let place = |position, column| (position * vectors + column / LANES, column % LANES);
        let scale_place = |position, block| position * groups + block;
        StoredPage::new(random, kind, (dim, no_numbers), PAGE * vectors, place, scale_place)
    }

    fn page(&self) -> Page<'_> {
        match self.kind {
            KvType::F32 => Page::F32(&self.floats),
            KvType::F16 => Page::F16(&self.halves),
            KvType::Q8_0 => Page::Q8_0 { integers: &self.integers, scales: &self.scales },
        }
    }
}

const KV_TYPES: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

/// Queries and how many positions of a page they see: all, some, none, fewer and fewer.
fn seen(random: &mut Random, queries: usize) -> Vec<Seen> {
    let (case, first) = (random.below(7), random.below(PAGE + 1));
    let of = |q: usize, random: &mut Random| match case {
        0 => (0, PAGE),
        1 => (0, random.below(PAGE + 1)),
        2 => (0, first),
        3 => (0, (first + q / 3).min(PAGE)),
        4 => (0, (q + 1).min(PAGE)),
        // The ends of windows, and windows inside the page.
        5 => ((first + q / 3).min(PAGE), PAGE),
        _ => (random.below(PAGE + 1), random.below(PAGE + 1)),
    };
    let seen = (0..queries).map(|q| of(q, random));
    seen.map(|(start, end)| if start < end { Seen { start, end } } else { Seen::default() }).collect()
}

#[test]
fn attention_pages() {
    each_isa(|kernels, random| {
        for kind in KV_TYPES {
            for dim in [1, 8, 12, 16, 24, 40, 48, 64, 80, 96, 112, 128, 130, 256] {
                for queries in [1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 29] {
                    for are_many in [false, true] {
                        attention_page(kernels, random, kind, dim, (queries, are_many), false);
                    }
                }
                attention_page(kernels, random, kind, dim, (7, false), true);
                attention_page(kernels, random, kind, dim, (11, true), true);
            }
        }
    });
}

/// Three pages one after the other, as they are stored or laid out for many queries, with keys of one size and values of another; or with some that are no
/// numbers.
fn attention_page(
    kernels: Kernels,
    random: &mut Random,
    kind: KvType,
    dim: usize,
    (queries, are_many): (usize, bool),
    no_numbers: bool,
) {
    let (isa, value_dim, scale) = (kernels.isa(), dim + random.below(2) * 7, 3.0);
    let vectors = value_dim.div_ceil(LANES);
    let query = random.units(queries * dim);
    let room = if are_many { with_room(queries) } else { queries };
    let mut interleaved = vec![f32::NAN; room * dim];
    if are_many {
        many::interleave(&query, dim, &mut interleaved);
    } else {
        interleave(&query, dim, &mut interleaved);
    }
    let mut laid = vec![[f32::NAN; LANES]; laid_vectors(dim, value_dim)];
    let mut truth = vec![(Softmax::default(), vec![0.0; value_dim]); queries];
    let mut states = vec![Softmax::default(); queries];
    let mut acc = vec![[0.0; LANES]; queries * vectors];
    let mut scores = vec![[f32::NAN; PAGE]; room];
    let mut corrections = vec![f32::NAN; queries];
    for _ in 0..3 {
        let seen = seen(random, queries);
        let what = format!("{isa} {kind} {queries} queries of {dim}, {seen:?}");
        let keys = StoredPage::keys(random, kind, dim, no_numbers);
        let values = StoredPage::values(random, kind, value_dim, no_numbers);
        let page = keys.page();
        // Any memory may be asked for ahead: here less, there more than a line for each step.
        let ahead: &[u8] = &vec![0; random.below(3) * random.below(20_000)];
        let positions = seen.iter().map(|seen| seen.end).max().unwrap_or(0);
        {
            let (queries, seen, scores) = (&interleaved[..], &seen[..], &mut scores[..queries]);
            if are_many {
                kernels.run(LayKeys { page, dim, positions, out: &mut laid });
                kernels.run(ManyScores { queries, keys: &laid, seen, scale, ahead, scores });
            } else {
                kernels.run(Scores { queries, keys: page, seen, scale, ahead, scores });
            }
        }
        let mut weights: Vec<Vec<f32>> = Vec::new();
        for (q, query) in query.chunks(dim).enumerate() {
            let keys = keys.plain.chunks(dim).take(seen[q].end).skip(seen[q].start);
            weights.push(keys.map(|key| arithmetic::score(query, key, scale)).collect());
            assert_eq!(comparable(&scores[q][seen[q].range()]), comparable(&weights[q]), "{what}");
        }
        kernels.run(SoftmaxTiles {
            states: &mut states,
            seen: &seen,
            scores: &mut scores[..queries],
            corrections: &mut corrections,
        });
        {
            let (acc, corrections, seen, weights) = (&mut acc[..], &corrections[..], &seen[..], &scores[..]);
            let page = values.page();
            if are_many {
                kernels.run(LayValues { page, vectors, positions, out: &mut laid });
                kernels.run(ManyValues { acc, corrections, seen, weights, values: &laid, ahead });
            } else {
                kernels.run(Accumulate { acc, corrections, seen, weights, values: page, ahead });
            }
        }
        for (q, (softmax, sums)) in truth.iter_mut().enumerate() {
            if !seen[q].is_empty() {
                let correction = softmax.tile(&mut weights[q]);
                assert_eq!(comparable(&corrections[q..=q]), comparable(&[correction]), "{what}");
                assert_eq!(comparable(&scores[q][seen[q].range()]), comparable(&weights[q]), "{what}");
                sums.iter_mut().for_each(|sum| *sum *= correction);
                let values = values.plain.chunks(value_dim).skip(seen[q].start);
                for (weight, value) in weights[q].iter().zip(values) {
                    arithmetic::accumulate(sums, *weight, value);
                }
            }
            assert_eq!(
                comparable(&[states[q].max, states[q].sum]),
                comparable(&[softmax.max, softmax.sum]),
                "{what}"
            );
            let found = acc[q * vectors..][..vectors].as_flattened();
            assert_eq!(comparable(&found[..value_dim]), comparable(sums), "{what}");
        }
    }
}

#[test]
fn merged_spans() {
    each_isa(|kernels, random| {
        for vectors in [1, 4, 5, 8] {
            let (mut truth, mut truth_acc) = (Softmax::default(), vec![0.0f32; vectors * LANES]);
            let (mut state, mut acc) = (Softmax::default(), vec![[0.0; LANES]; vectors]);
            for index in 0..20 {
                let mut span = Softmax { max: 9.0 * random.unit(), sum: 1.0 + 50.0 * random.unit().abs() };
                let mut values = random.floats(vectors * LANES);
                // From a span of scores without any number on, there is none.
                if index == 15 {
                    span = Softmax { max: f32::NEG_INFINITY, sum: f32::NAN };
                    values.fill(f32::NAN);
                }
                let (before, after) = truth.merge(span);
                for (acc, value) in truth_acc.iter_mut().zip(&values) {
                    *acc = acc.mul_add(before, value * after);
                }
                let span_acc = values.as_chunks().0;
                kernels.run(Merge { state: &mut state, acc: &mut acc, span, span_acc });
                assert_eq!(comparable(&[state.max, state.sum]), comparable(&[truth.max, truth.sum]));
                assert_eq!(comparable(acc.as_flattened()), comparable(&truth_acc), "{:?}", kernels.isa());
                assert_eq!(state.sum.is_nan(), index >= 15);
            }
        }
    });
}

#[test]
fn finished_queries() {
    each_isa(|kernels, random| {
        for dim in [1usize, 8, 16, 24, 64, 80] {
            let values = random.floats(dim.next_multiple_of(LANES));
            let (state, mut out) = (Softmax { max: 0.0, sum: 7.3 }, vec![0.0; dim]);
            kernels.run(Finish { state, acc: values.as_chunks().0, out: &mut out });
            let truth: Vec<f32> = values[..dim].iter().map(|x| x * (1.0 / 7.3)).collect();
            assert_eq!(bits(&out), bits(&truth), "{:?} {dim}", kernels.isa());
        }
    });
}
