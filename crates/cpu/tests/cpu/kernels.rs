//! Float kernels, each on every instruction set that this machine has, against `gleed_model::arithmetic`,
//! bit for bit, over random shapes.

use crate::common::{NO_NUMBERS, Random, bits, comparable, each_isa};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::activate::Activate;
use gleed_cpu::kernels::add::{Add, AddScaled};
use gleed_cpu::kernels::chain::{Bf16, Stored};
use gleed_cpu::kernels::convert::{FromBf16, FromHalf, ToBlocks, ToHalf};
use gleed_cpu::kernels::dot::{DOT_ROWS, Dots, Rows};
use gleed_cpu::kernels::map::MapValues;
use gleed_cpu::kernels::norm::Norm;
use gleed_cpu::kernels::products::{
    GROUP, PackRows, Products, TILES, WAITING, packed_tile_vectors, packed_vectors,
};
use gleed_cpu::kernels::rope::Rotate;
use gleed_cpu::kernels::tile::TILE;
use gleed_model::KvType;
use gleed_model::arithmetic::{self, BLOCK, LANES};
use gleed_model::program::{Activation, Map};
use gleed_model::rope::{Pairing, Rope, Scaling};
use half::{bf16, f16};

/// Lengths around every border: nothing, less than the lanes, the lanes, some more, many.
const LENGTHS: [usize; 17] = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 100, 576, 1031];

/// Those that `GLEED_TEST_ISA` names, as `neon,neon-i8mm`: what is missing must not pass for tested.
#[test]
fn promised_instruction_sets_are_there() {
    let promised = std::env::var("GLEED_TEST_ISA").unwrap_or_default();
    for name in promised.split(',').filter(|name| !name.is_empty()) {
        let isa: Isa = name.parse().unwrap();
        assert!(isa.is_available(), "{isa} was promised and is not there");
    }
}

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
                (Activation::Softplus, arithmetic::softplus as fn(f32) -> f32),
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
            for map in [
                Map::Scale(-0.3),
                Map::SoftCap(30.0),
                Map::SoftCap(0.01),
                Map::AtMost(0.2),
                Map::Within(0.4),
                Map::Kept(0.7),
                Map::Xielu(arithmetic::Xielu::new(0.8, -0.3, 0.5)),
            ] {
                let mut out = x.clone();
                kernels.run(MapValues { map, x: &mut out });
                let plain = |x: &f32| match map {
                    Map::Scale(factor) => x * factor,
                    Map::SoftCap(cap) => arithmetic::soft_cap(*x, cap),
                    Map::AtMost(limit) if *x > limit => limit,
                    Map::AtMost(_) => *x,
                    Map::Within(limit) => x.clamp(-limit, limit),
                    Map::Kept(rate) => arithmetic::exp(-rate * arithmetic::sigmoid(*x)),
                    Map::Xielu(numbers) => arithmetic::xielu(*x, numbers),
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
        // Lanes without columns, chains at once and in several turns, and lengths that are no multiple of the lanes.
        for columns in [1, 15, 16, 17, 100, 512, 513, 576, 1024, 1289, 2000] {
            for (weight_rows, rows) in
                [(1, 9), (5, 1), (16, 8), (17, 11), (23, 4), (64, 17), (48, 0), (4, 33), (113, 6)]
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
                let pack = |rows: &[f32], stride: usize, count: usize, tiles: usize, size: usize| {
                    let mut out = vec![[f32::NAN; LANES]; size];
                    for (g, first) in (0..count).step_by(GROUP).enumerate() {
                        kernels.run(PackRows {
                            rows: &rows[first * stride..],
                            stride,
                            count: GROUP.min(count - first),
                            columns,
                            out: &mut out[packed_vectors(g / tiles * tiles * GROUP, columns)..],
                            beside: (g % tiles, tiles),
                        });
                    }
                    out
                };
                let size = packed_tile_vectors(tiles, columns);
                let packed = pack(&weights, columns, weight_rows, TILES, size);
                kernels.run(Products {
                    weights: &packed,
                    tiles,
                    columns,
                    x: &pack(&x, x_stride, rows, 1, packed_vectors(rows, columns)),
                    rows,
                    out: &mut out,
                    stride,
                    sums: &mut sums,
                });
                for (index, found) in out.as_flattened().iter().enumerate() {
                    let (tile, r, w) = (index / TILE / stride, index / TILE % stride, index % TILE);
                    // A tile is multiplied as a whole; what it has no weights for is zero.
                    let truth = if r < rows {
                        let weights = weights.chunks(columns).nth(tile * TILE + w);
                        weights.map_or(0.0, |weights| arithmetic::dot(weights, &x[r * x_stride..][..columns]))
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
