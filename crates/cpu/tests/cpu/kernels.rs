//! Float kernels, each on every instruction set that this machine has, against `gleed_model::arithmetic`,
//! bit for bit, over random shapes.

use crate::common::{NO_NUMBERS, Random, bits, comparable, each_isa, plain_quantized, without_numbers};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::activate::Activate;
use gleed_cpu::kernels::add::{Add, AddScaled};
use gleed_cpu::kernels::attention::{Accumulate, Page, Scores, Seen, interleave};
use gleed_cpu::kernels::chain::{Bf16, Stored};
use gleed_cpu::kernels::convert::{FromBf16, FromHalf, FromKeyBlocks, FromValueBlocks, ToBlocks, ToHalf};
use gleed_cpu::kernels::dot::{DOT_ROWS, Dots, Rows};
use gleed_cpu::kernels::map::MapValues;
use gleed_cpu::kernels::norm::Norm;
use gleed_cpu::kernels::products::{GROUP, PackRows, Products, WAITING, packed_vectors};
use gleed_cpu::kernels::rope::Rotate;
use gleed_cpu::kernels::softmax::{Finish, Merge, SoftmaxTiles};
use gleed_cpu::kernels::tile::TILE;
use gleed_model::KvType;
use gleed_model::arithmetic::{self, BLOCK, LANES, PAGE, Softmax};
use gleed_model::program::{Activation, Map};
use gleed_model::rope::{Pairing, Rope, Scaling};
use half::{bf16, f16};

/// Lengths around every border: nothing, less than the lanes, the lanes, some more, many.
const LENGTHS: [usize; 17] = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 100, 576, 1031];

#[test]
fn add_is_plain_addition() {
    each_isa(|kernels, random| {
        for len in LENGTHS {
            let (x, y) = (random.floats(len), random.floats(len));
            let truth: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            let mut sum = x.clone();
            kernels.run(Add { x: &mut sum, y: &y });
            assert_eq!(bits(&sum), bits(&truth), "{:?} {len}", kernels.isa());
        }
    });
}

#[test]
fn norms() {
    each_isa(|kernels, random| {
        for len in LENGTHS.into_iter().filter(|len| *len > 0) {
            for special in [None].into_iter().chain(NO_NUMBERS.map(Some)) {
                let (mut x, weight, bias) = (random.floats(len), random.units(len), random.units(len));
                if let Some(special) = special {
                    x[random.below(len)] = special;
                }
                let mut truth = vec![0.0; len];
                let mut out = x.clone();
                arithmetic::rms_norm(&x, &weight, 1e-5, &mut truth);
                kernels.run(Norm { x: &mut out, weight: &weight, bias: None, epsilon: 1e-5 });
                assert_eq!(comparable(&out), comparable(&truth), "rms {:?} {len}", kernels.isa());
                assert_eq!(out.iter().any(|x| x.is_nan()), special.is_some(), "{special:?} stays");
                let mut out = x.clone();
                arithmetic::layer_norm(&x, &weight, &bias, 1e-6, &mut truth);
                kernels.run(Norm { x: &mut out, weight: &weight, bias: Some(&bias), epsilon: 1e-6 });
                assert_eq!(comparable(&out), comparable(&truth), "layer {:?} {len}", kernels.isa());
                assert_eq!(out.iter().any(|x| x.is_nan()), special.is_some(), "{special:?} stays");
            }
        }
    });
}

#[test]
fn rotations() {
    each_isa(|kernels, random| {
        for pairing in [Pairing::Interleaved, Pairing::SplitHalf] {
            for (dimensions, width) in [(2, 2), (2, 9), (36, 40), (64, 64), (64, 96), (66, 66), (128, 128)] {
                let rope =
                    Rope::new(pairing, dimensions, 1e4, &Scaling::Linear { factor: 2.0 }, None).unwrap();
                let (mut cos, mut sin) = (vec![0.0; dimensions / 2], vec![0.0; dimensions / 2]);
                rope.angles(random.below(5000) as u32, &mut cos, &mut sin);
                let mut truth = random.floats(width);
                let mut head = truth.clone();
                rope.apply(&mut truth, &cos, &sin);
                kernels.run(Rotate { head: &mut head, pairing, cos: &cos, sin: &sin });
                assert_eq!(bits(&head), bits(&truth), "{:?} {pairing:?} {dimensions}", kernels.isa());
            }
        }
    });
}

#[test]
fn activations() {
    each_isa(|kernels, random| {
        let extremes = [
            f32::NAN,
            f32::NEG_INFINITY,
            f32::INFINITY,
            -f32::NAN,
            -1e30,
            1e30,
            -200.0,
            200.0,
            0.0,
            -0.0,
            1e-40,
        ];
        for len in LENGTHS {
            let mut gate = random.floats(len);
            gate.iter_mut().zip(extremes).for_each(|(gate, extreme)| *gate = extreme);
            let up = random.floats(len);
            for (activation, plain) in [
                (Activation::Silu, arithmetic::silu as fn(f32) -> f32),
                (Activation::Gelu, arithmetic::gelu as fn(f32) -> f32),
                (Activation::ExactGelu, arithmetic::exact_gelu as fn(f32) -> f32),
                (Activation::SquaredRelu, arithmetic::squared_relu as fn(f32) -> f32),
                (Activation::Sigmoid, arithmetic::sigmoid as fn(f32) -> f32),
                (Activation::Identity, |x| x),
                (Activation::ClampedSwiglu, |x| arithmetic::clamped_swiglu(x, 0.0)),
            ] {
                let mut out = gate.clone();
                kernels.run(Activate { activation, x: &mut out, up: None });
                let truth: Vec<f32> = gate.iter().map(|x| plain(*x)).collect();
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {activation:?}", kernels.isa());
                assert!(gate.iter().zip(&out).all(|(gate, out)| gate.is_nan() == out.is_nan()));
                out.copy_from_slice(&gate);
                kernels.run(Activate { activation, x: &mut out, up: Some(&up) });
                let together = |(x, up): (&f32, &f32)| match activation {
                    Activation::ClampedSwiglu => arithmetic::clamped_swiglu(*x, *up),
                    _ => plain(*x) * up,
                };
                let truth: Vec<f32> = gate.iter().zip(&up).map(together).collect();
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {activation:?}", kernels.isa());
            }
        }
    });
}

#[test]
fn sums_with_a_factor() {
    each_isa(|kernels, random| {
        for len in LENGTHS {
            let (x, y) = (random.floats(len), random.floats(len));
            let mut out = x.clone();
            kernels.run(AddScaled { x: &mut out, y: &y, factor: -0.7 });
            let truth: Vec<f32> = x.iter().zip(&y).map(|(x, y)| (-0.7f32).mul_add(*y, *x)).collect();
            assert_eq!(comparable(&out), comparable(&truth), "{:?}", kernels.isa());
        }
    });
}

#[test]
fn maps() {
    each_isa(|kernels, random| {
        for len in LENGTHS {
            let mut x = random.floats(len);
            let extremes = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0, -0.0, 1e-40];
            x.iter_mut().zip(extremes).for_each(|(x, extreme)| *x = extreme);
            for map in [Map::Scale(-0.3), Map::SoftCap(30.0), Map::SoftCap(0.01)] {
                let mut out = x.clone();
                kernels.run(MapValues { map, x: &mut out });
                let plain = |x: &f32| match map {
                    Map::Scale(factor) => x * factor,
                    Map::SoftCap(cap) => arithmetic::soft_cap(*x, cap),
                };
                let truth: Vec<f32> = x.iter().map(plain).collect();
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {map:?}", kernels.isa());
            }
        }
    });
}

#[test]
fn silu_over_the_whole_range() {
    each_isa(|kernels, _| {
        let x: Vec<f32> = (-400_000..400_000).map(|i| i as f32 * 2.5e-4).collect();
        let mut out = x.clone();
        kernels.run(Activate { activation: Activation::Silu, x: &mut out, up: None });
        assert!(x.iter().zip(&out).all(|(x, out)| arithmetic::silu(*x).to_bits() == out.to_bits()));
    });
}

#[test]
fn dot_products() {
    each_isa(|kernels, random| {
        for columns in LENGTHS.into_iter().filter(|len| *len > 0) {
            for weight_rows in 1..=DOT_ROWS {
                for rows in [0, 1, 2, 3, 4, 5, 8, 9, 13] {
                    let weights = random.floats(2 * weight_rows * columns);
                    let halves: Vec<u16> = weights.iter().map(|x| f16::from_f32(*x).to_bits()).collect();
                    let upper: Vec<Bf16> =
                        weights.iter().map(|x| Bf16(bf16::from_f32(*x).to_bits())).collect();
                    check_dots(kernels, random, &weights, |x| x, columns, rows);
                    check_dots(kernels, random, &halves, |x| f16::from_bits(x).to_f32(), columns, rows);
                    check_dots(kernels, random, &upper, |x| bf16::from_bits(x.0).to_f32(), columns, rows);
                }
            }
        }
    });
}

/// The first half of some rows of weights times rows of activations; the second half is what comes next.
fn check_dots<T: Stored>(
    kernels: Kernels,
    random: &mut Random,
    weights: &[T],
    value: impl Fn(T) -> f32,
    columns: usize,
    rows: usize,
) {
    let (weights, next) = weights.split_at(weights.len() / 2);
    let (weight_rows, stride) = (weights.len() / columns, columns + random.below(5));
    let x = random.floats(rows * stride);
    let out_stride = weight_rows + random.below(3);
    let mut out = vec![7.0; rows * out_stride];
    let rows_of = Rows { values: &x, stride, count: rows };
    kernels.run(Dots { weights, next, columns, x: rows_of, out: &mut out, out_stride });
    for r in 0..rows {
        for i in 0..out_stride {
            let truth = if i < weight_rows {
                let weights: Vec<f32> = weights[i * columns..][..columns].iter().map(|x| value(*x)).collect();
                arithmetic::dot(&weights, &x[r * stride..][..columns])
            } else {
                7.0
            };
            let found = out[r * out_stride + i];
            assert_eq!(comparable(&[found]), comparable(&[truth]), "{:?} {columns}", kernels.isa());
        }
    }
}

#[test]
fn products_of_many_rows() {
    each_isa(|kernels, random| {
        // One chunk of columns, several, and lengths that are no multiple of the lanes.
        for columns in [1, 15, 16, 17, 100, 512, 513, 576, 1024, 1289, 2000] {
            for (weight_rows, rows) in
                [(1, 9), (5, 1), (16, 8), (17, 11), (23, 4), (64, 17), (48, 0), (4, 33)]
            {
                // As many as there are with lengths of some thousand steps.
                if kernels.isa() == Isa::Portable && columns * weight_rows * rows > 300_000 {
                    continue;
                }
                let (weights, x_stride) = (random.floats(weight_rows * columns), columns + random.below(5));
                let x = random.floats(rows * x_stride);
                let (tiles, stride) = (weight_rows.div_ceil(TILE), rows + random.below(3));
                let mut out = vec![[7.0; TILE]; tiles * stride];
                let mut sums = vec![[f32::NAN; LANES]; WAITING];
                let pack = |rows: &[f32], stride: usize, count: usize| {
                    let mut out = vec![[f32::NAN; LANES]; packed_vectors(count, columns)];
                    kernels.run(PackRows { rows, stride, count, columns, out: &mut out });
                    out
                };
                let packed = pack(&weights, columns, weight_rows);
                kernels.run(Products {
                    weights: &packed,
                    columns,
                    x: &pack(&x, x_stride, rows),
                    rows,
                    out: &mut out,
                    stride,
                    sums: &mut sums,
                });
                for (index, found) in out.as_flattened().iter().enumerate() {
                    let (tile, r, w) = (index / TILE / stride, index / TILE % stride, index % TILE);
                    // A group is multiplied as a whole.
                    let is_padding =
                        (weight_rows..weight_rows.next_multiple_of(GROUP)).contains(&(tile * TILE + w));
                    if r < rows && is_padding {
                        continue;
                    }
                    let truth = if r < rows && tile * TILE + w < weight_rows {
                        let weights = &weights[(tile * TILE + w) * columns..][..columns];
                        arithmetic::dot(weights, &x[r * x_stride..][..columns])
                    } else {
                        7.0
                    };
                    let what = format!("{:?} {columns} columns {weight_rows} x {rows}", kernels.isa());
                    assert_eq!(comparable(&[*found]), comparable(&[truth]), "{what}: {tile} {r} {w}");
                }
            }
        }
    });
}

#[test]
fn dot_products_that_underflow_keep_their_sign() {
    each_isa(|kernels, _| {
        // -1e-30 · 1e-30 rounds to -0; adding +0 in a lane without a value would lose the sign.
        for columns in [16, 17, 31] {
            let (a, b) = (vec![-1e-30f32; columns], vec![1e-30f32; columns]);
            let mut out = [1.0];
            let x = Rows { values: &b, stride: columns, count: 1 };
            kernels.run(Dots { weights: &a, next: &[], columns, x, out: &mut out, out_stride: 1 });
            assert_eq!(out[0].to_bits(), arithmetic::dot(&a, &b).to_bits(), "{:?} {columns}", kernels.isa());
        }
    });
}

#[test]
fn half_precision() {
    each_isa(|kernels, random| {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let truth: Vec<f32> = all.iter().map(|x| f16::from_bits(*x).to_f32()).collect();
        let mut out = vec![0.0; all.len()];
        kernels.run(FromHalf { x: &all, out: &mut out });
        assert_eq!(comparable(&out), comparable(&truth));
        let shifted: Vec<f32> = all.iter().map(|x| half::bf16::from_bits(*x).to_f32()).collect();
        kernels.run(FromBf16 { x: &all, out: &mut out });
        assert_eq!(comparable(&out), comparable(&shifted));
        for len in LENGTHS {
            let mut x = random.floats(len);
            // Half-way cases, overflow and halves below the normal range.
            let hard = [1.000_488_3, 1.001_464_8, 65_519.0, 65_520.0, 1e30, 3e-6, 2.98e-8, f32::INFINITY];
            x.iter_mut().zip(hard).for_each(|(x, hard)| *x = hard);
            let mut out = vec![0; len];
            kernels.run(ToHalf { x: &x, out: &mut out });
            let truth: Vec<u16> = x.iter().map(|x| f16::from_f32(*x).to_bits()).collect();
            assert_eq!(out, truth, "{:?}", kernels.isa());
            let mut back = vec![0.0; len];
            kernels.run(FromHalf { x: &out, out: &mut back });
            KvType::F16.round(&mut x);
            assert_eq!(bits(&back), bits(&x));
        }
    });
}

#[test]
fn stored_blocks() {
    each_isa(|kernels, random| {
        for len in LENGTHS {
            for special in [None].into_iter().chain(NO_NUMBERS.map(Some)) {
                let mut x = random.units(len);
                if let (Some(special), Some(last)) = (special, x.last_mut()) {
                    *last = special;
                }
                let (mut q, mut scales) = (vec![0; len], vec![0; len.div_ceil(BLOCK)]);
                kernels.run(ToBlocks { x: &x, q: &mut q, scales: &mut scales });
                let scale = |column: usize| f16::from_bits(scales[column / BLOCK]).to_f32();
                let back: Vec<f32> = q.iter().enumerate().map(|(i, q)| f32::from(*q) * scale(i)).collect();
                assert!(
                    back.last().is_none_or(|last| last.is_nan() == special.is_some()),
                    "{special:?} stays"
                );
                KvType::Q8_0.round(&mut x);
                assert_eq!(comparable(&back), comparable(&x), "{:?} {len}", kernels.isa());
            }
        }
    });
}

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
    /// block)` say: vector and lane, and index. All else is NaN or the like: nobody may use it.
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
                    attention_page(kernels, random, kind, dim, queries, false);
                }
                attention_page(kernels, random, kind, dim, 7, true);
            }
        }
    });
}

/// Three pages one after the other, with keys of one size and values of another; or with some that are no
/// numbers.
fn attention_page(
    kernels: Kernels,
    random: &mut Random,
    kind: KvType,
    dim: usize,
    queries: usize,
    no_numbers: bool,
) {
    let (isa, value_dim, scale) = (kernels.isa(), dim + random.below(2) * 7, 3.0);
    let vectors = value_dim.div_ceil(LANES);
    let query = random.units(queries * dim);
    let mut interleaved = vec![0.0; query.len()];
    interleave(&query, dim, &mut interleaved);
    let mut truth = vec![(Softmax::default(), vec![0.0; value_dim]); queries];
    let mut states = vec![Softmax::default(); queries];
    let mut acc = vec![[0.0; LANES]; queries * vectors];
    let mut scores = vec![[f32::NAN; PAGE]; queries];
    let mut corrections = vec![f32::NAN; queries];
    for _ in 0..3 {
        let seen = seen(random, queries);
        let what = format!("{isa} {kind} {queries} queries of {dim}, {seen:?}");
        let keys = StoredPage::keys(random, kind, dim, no_numbers);
        let values = StoredPage::values(random, kind, value_dim, no_numbers);
        let page = keys.page();
        // Any memory may be asked for ahead: here less, there more than a line for each step.
        let ahead: &[u8] = &vec![0; random.below(3) * random.below(20_000)];
        kernels.run(Scores {
            queries: &interleaved,
            keys: page,
            seen: &seen,
            scale,
            ahead,
            scores: &mut scores,
        });
        let mut weights: Vec<Vec<f32>> = Vec::new();
        for (q, query) in query.chunks(dim).enumerate() {
            let keys = keys.plain.chunks(dim).take(seen[q].end).skip(seen[q].start);
            weights.push(keys.map(|key| arithmetic::score(query, key, scale)).collect());
            assert_eq!(comparable(&scores[q][seen[q].range()]), comparable(&weights[q]), "{what}");
        }
        kernels.run(SoftmaxTiles {
            states: &mut states,
            seen: &seen,
            scores: &mut scores,
            corrections: &mut corrections,
        });
        let (weight_rows, page) = (&scores, values.page());
        kernels.run(Accumulate {
            acc: &mut acc,
            corrections: &corrections,
            seen: &seen,
            weights: weight_rows,
            values: page,
            ahead,
        });
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
fn decoded_pages() {
    each_isa(|kernels, random| {
        for dim in [1, 12, 24, 32, 40, 64, 80, 128] {
            let (keys, values) = (
                StoredPage::keys(random, KvType::Q8_0, dim, false),
                StoredPage::values(random, KvType::Q8_0, dim, false),
            );
            for positions in [0, 1, 16, 33, PAGE] {
                let used = positions.div_ceil(LANES) * dim;
                let (integers, mut out) = (&keys.integers[..used], vec![[0.0; LANES]; used]);
                kernels.run(FromKeyBlocks { integers, scales: &keys.scales, dim, out: &mut out });
                assert_eq!(bits(out.as_flattened()), bits(keys.floats[..used].as_flattened()));
                let vectors = dim.div_ceil(LANES);
                let used = positions * vectors;
                let (integers, mut out) = (&values.integers[..used], vec![[0.0; LANES]; used]);
                kernels.run(FromValueBlocks { integers, scales: &values.scales, vectors, out: &mut out });
                let rows = out.as_flattened().chunks(vectors * LANES);
                for (row, truth) in rows.zip(values.plain.chunks(dim)) {
                    assert_eq!(bits(&row[..dim]), bits(truth), "{:?} {dim}", kernels.isa());
                }
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
