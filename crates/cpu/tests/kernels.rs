//! Every kernel on every instruction set that this machine has, against `gleed_model::arithmetic`, bit
//! for bit, over random shapes.

mod common;

use common::{Random, bits, random_blocks};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::activate::Activate;
use gleed_cpu::kernels::add::Add;
use gleed_cpu::kernels::attention::{Accumulate, Scores, SoftmaxTile};
use gleed_cpu::kernels::blocked::{BLOCK_ROWS, Blocked, block_lines, chunks, fill_block};
use gleed_cpu::kernels::convert::{FromBf16, FromBlocks, FromHalf, ToBlocks, ToHalf};
use gleed_cpu::kernels::dot::{DOT_ROWS, Dots, Rows};
use gleed_cpu::kernels::integer::{Multiply, Pack, Panel, Quantized, TILE};
use gleed_cpu::kernels::norm::Norm;
use gleed_cpu::kernels::packed::Line;
use gleed_cpu::kernels::quantize::{Quantize, QuantizedRow, row_words};
use gleed_cpu::kernels::rope::Rotate;
use gleed_cpu::kernels::unpack::Unpack;
use gleed_gguf::{Format, Groups, Unpacked};
use gleed_model::KvType;
use gleed_model::arithmetic::{self, BLOCK, IntegerRow, PAGE, Softmax};
use gleed_model::program::Activation;
use gleed_model::rope::{Pairing, Rope, Scaling};
use half::f16;

/// Lengths around every border: nothing, less than the lanes, the lanes, some more, many.
const LENGTHS: [usize; 17] = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 100, 576, 1031];

fn each_isa(test: impl Fn(Kernels, &mut Random)) {
    for isa in Isa::available() {
        let kernels = Kernels::new(isa).unwrap();
        assert_eq!(kernels.isa(), isa);
        test(kernels, &mut Random::new(7 + isa as u64));
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
            let (x, weight, bias) = (random.floats(len), random.units(len), random.units(len));
            let mut truth = vec![0.0; len];
            let mut out = x.clone();
            arithmetic::rms_norm(&x, &weight, 1e-5, &mut truth);
            kernels.run(Norm { x: &mut out, weight: &weight, bias: None, epsilon: 1e-5 });
            assert_eq!(bits(&out), bits(&truth), "rms {:?} {len}", kernels.isa());
            let mut out = x.clone();
            arithmetic::layer_norm(&x, &weight, &bias, 1e-6, &mut truth);
            kernels.run(Norm { x: &mut out, weight: &weight, bias: Some(&bias), epsilon: 1e-6 });
            assert_eq!(bits(&out), bits(&truth), "layer {:?} {len}", kernels.isa());
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
        let extremes = [f32::NEG_INFINITY, f32::INFINITY, -1e30, 1e30, -200.0, 200.0, 0.0, -0.0, 1e-40];
        for len in LENGTHS {
            let mut gate = random.floats(len);
            gate.iter_mut().zip(extremes).for_each(|(gate, extreme)| *gate = extreme);
            let up = random.floats(len);
            for (activation, plain) in [
                (Activation::Silu, arithmetic::silu as fn(f32) -> f32),
                (Activation::Gelu, arithmetic::gelu as fn(f32) -> f32),
            ] {
                let mut out = vec![0.0; len];
                kernels.run(Activate { activation, gate: &gate, up: None, out: &mut out });
                let truth: Vec<f32> = gate.iter().map(|x| plain(*x)).collect();
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {activation:?}", kernels.isa());
                kernels.run(Activate { activation, gate: &gate, up: Some(&up), out: &mut out });
                let truth: Vec<f32> = truth.iter().zip(&up).map(|(x, up)| x * up).collect();
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {activation:?}", kernels.isa());
            }
        }
    });
}

/// Bits, with every "not a number" the same: its payload has no meaning.
fn comparable(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

#[test]
fn silu_over_the_whole_range() {
    each_isa(|kernels, _| {
        let x: Vec<f32> = (-400_000..400_000).map(|i| i as f32 * 2.5e-4).collect();
        let mut out = vec![0.0; x.len()];
        kernels.run(Activate { activation: Activation::Silu, gate: &x, up: None, out: &mut out });
        assert!(x.iter().zip(&out).all(|(x, out)| arithmetic::silu(*x).to_bits() == out.to_bits()));
    });
}

#[test]
fn dot_products() {
    each_isa(|kernels, random| {
        for columns in LENGTHS.into_iter().filter(|len| *len > 0) {
            for weight_rows in 1..=DOT_ROWS {
                for rows in [0, 1, 2, 3, 4, 5, 8, 9, 13] {
                    let stride = columns + random.below(5);
                    let (weights, x) = (random.floats(weight_rows * columns), random.floats(rows * stride));
                    let out_stride = weight_rows + random.below(3);
                    let mut out = vec![7.0; rows * out_stride];
                    let rows_of = Rows { values: &x, stride, count: rows };
                    kernels.run(Dots { weights: &weights, columns, x: rows_of, out: &mut out, out_stride });
                    for r in 0..rows {
                        for i in 0..out_stride {
                            let truth = if i < weight_rows {
                                let weights = &weights[i * columns..][..columns];
                                arithmetic::dot(weights, &x[r * stride..][..columns])
                            } else {
                                7.0
                            };
                            let found = out[r * out_stride + i];
                            assert_eq!(found.to_bits(), truth.to_bits(), "{:?} {columns}", kernels.isa());
                        }
                    }
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
            kernels.run(Dots { weights: &a, columns, x, out: &mut out, out_stride: 1 });
            assert_eq!(out[0].to_bits(), arithmetic::dot(&a, &b).to_bits(), "{:?} {columns}", kernels.isa());
        }
    });
}

/// One row quantised in such blocks, by the definition: integers and scales.
fn plain_quantized(x: &[f32], block: usize) -> (Vec<i8>, Vec<f32>) {
    let mut q = vec![0; x.len()];
    let blocks = x.chunks(block).zip(q.chunks_mut(block));
    let scales = blocks.map(|(x, q)| arithmetic::quantize(x, q)).collect();
    (q, scales)
}

#[test]
fn quantised_rows() {
    each_isa(|kernels, random| {
        for (block, blocks) in [(32, 0), (32, 1), (32, 3), (32, 18), (256, 0), (256, 1), (256, 5)] {
            for special in [None, Some(f32::NAN), Some(f32::INFINITY), Some(1e-40), Some(0.0), Some(3e38)] {
                let columns = blocks * block;
                let mut x = random.floats(columns);
                if let Some(special) = special {
                    x.iter_mut().step_by(5).for_each(|x| *x = special);
                }
                if special == Some(1e-40) {
                    x.iter_mut().for_each(|x| *x *= 1e-38);
                }
                let (q, scales) = plain_quantized(&x, block);
                let mut words = vec![-1; row_words(columns, block)];
                kernels.run(Quantize { x: &x, block, words: &mut words });
                for group in if block == 32 { vec![32] } else { vec![16, 32] } {
                    let row = QuantizedRow::new(&words, columns, block, group);
                    let found: Vec<i8> =
                        row.q.iter().flat_map(|word| word.to_ne_bytes()).map(|byte| byte as i8).collect();
                    assert_eq!(found, q, "{:?} {special:?}", kernels.isa());
                    assert_eq!(bits(row.scales), bits(&scales), "{:?} {special:?}", kernels.isa());
                    let sum = |q: &[i8]| q.iter().map(|q| i32::from(*q)).sum::<i32>();
                    let sums: Vec<i32> = q.chunks(group).map(sum).collect();
                    assert_eq!(row.sums, sums);
                    if block == 32 {
                        let scaled: Vec<f32> =
                            sums.iter().zip(&scales).map(|(sum, scale)| scale * *sum as f32).collect();
                        assert_eq!(comparable(row.scaled_sums), comparable(&scaled));
                    } else {
                        let pairs: Vec<i32> =
                            row.pairs.iter().flat_map(|p| [i32::from(*p as i16), p >> 16]).collect();
                        assert_eq!(pairs, sums);
                    }
                }
            }
        }
    });
}

/// Sixteen random rows of integer weights.
struct Weights {
    groups: Groups,
    columns: usize,
    /// `[TILE][columns]`, and so on.
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

impl Weights {
    fn new(random: &mut Random, groups: Groups, columns: usize) -> Weights {
        let (count, blocks) = (columns / groups.len, columns / groups.block);
        let with_mins = |n: usize| if groups.mins { n } else { 0 };
        let two_levels = groups.block != 32;
        Weights {
            groups,
            columns,
            // Every i8 occurs, -128 too; a factor times any of them is at most 4096.
            integers: (0..TILE * columns).map(|_| random.bits() as i8).collect(),
            factors: (0..TILE * count)
                .map(|_| if two_levels { (random.bits() % 65) as i8 - 32 } else { 1 })
                .collect(),
            scales: random.units(TILE * blocks),
            min_factors: (0..with_mins(TILE * count))
                .map(|_| if two_levels { (random.bits() % 64) as i8 } else { 1 })
                .collect(),
            mins: random.units(with_mins(TILE * blocks)),
        }
    }

    fn row(&self, w: usize) -> IntegerRow<'_> {
        let Groups { block, len, mins } = self.groups;
        let (count, blocks) = (self.columns / len, self.columns / block);
        let range = |n: usize| if mins { w * n..(w + 1) * n } else { 0..0 };
        IntegerRow {
            integers: &self.integers[w * self.columns..][..self.columns],
            factors: &self.factors[w * count..][..count],
            scales: &self.scales[w * blocks..][..blocks],
            min_factors: &self.min_factors[range(count)],
            mins: &self.mins[range(blocks)],
            block,
            group: len,
        }
    }

    /// Sixteen rows to lanes, `n` values each.
    fn lanes<T: Copy, U>(values: &[T], n: usize, to: impl Fn(T) -> U) -> Vec<[U; TILE]> {
        (0..n.min(values.len()))
            .map(|i| std::array::from_fn(|lane| to(values[lane * (values.len() / TILE) + i])))
            .collect()
    }

    /// Multiplies with rows of activations: on the vector unit, and on the tile unit where there is one.
    fn multiply(&self, kernels: Kernels, x: &[f32], rows: usize) -> Vec<Vec<[f32; TILE]>> {
        let Groups { block, len, mins } = self.groups;
        let two_levels = block != 32;
        let stride = (self.columns / 4).next_multiple_of(16);
        let mut padded = vec![0; TILE * stride];
        for (row, values) in padded.chunks_mut(stride).zip(self.integers.chunks(self.columns)) {
            for (word, q) in row.iter_mut().zip(values.as_chunks::<4>().0) {
                *word = i32::from_ne_bytes(q.map(|q| q as u8));
            }
        }
        let mut words = vec![[0; TILE]; stride];
        kernels.run(Pack { rows: &padded, stride, out: &mut words });
        let (count, blocks) = (self.columns / len, self.columns / block);
        let min_factors = Weights::lanes(&self.min_factors, count, i32::from);
        let pairs: Vec<[i32; TILE]> = min_factors
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[low, high]| std::array::from_fn(|i| low[i] | high[i] << 16))
            .collect();
        let panel = Panel {
            groups: self.groups,
            integers: &words[..self.columns / 4],
            factors: &Weights::lanes(&self.factors, if two_levels { count } else { 0 }, i32::from),
            scales: &Weights::lanes(&self.scales, blocks, |x| x),
            min_pairs: if two_levels && mins { &pairs } else { &[] },
            mins: &Weights::lanes(&self.mins, blocks, |x| x),
        };
        let size = row_words(self.columns, block);
        let mut quantized = vec![0; rows * size];
        for (x, words) in x.chunks(self.columns).zip(quantized.chunks_mut(size)) {
            kernels.run(Quantize { x, block, words });
        }
        let x = Quantized { words: &quantized, columns: self.columns, block, rows };
        let mut found = vec![vec![[f32::NAN; TILE]; rows]];
        kernels.run(Multiply { panel, x, out: &mut found[0] });
        if kernels.tile_scratch() > 0 {
            let size = block_lines(self.columns, block);
            let row_blocks = rows.div_ceil(BLOCK_ROWS);
            // What was there before must not matter.
            let mut lines = vec![Line([-1; 16]); row_blocks * size * chunks(self.columns, block)];
            for (i, lines) in lines.chunks_mut(size).enumerate() {
                let (chunk, b) = (i / row_blocks, i % row_blocks);
                let rest = x.from_row(b * BLOCK_ROWS);
                fill_block(Quantized { rows: rest.rows.min(BLOCK_ROWS), ..rest }, chunk, lines);
            }
            let blocked = Blocked { lines: &lines, row_blocks, columns: self.columns, block };
            let mut out = vec![[f32::NAN; TILE]; row_blocks * BLOCK_ROWS];
            let mut scratch = vec![Line([-1; 16]); kernels.tile_scratch()];
            kernels.multiply_blocks(panel, blocked, &mut out, &mut scratch);
            out.truncate(rows);
            found.push(out);
        }
        found
    }
}

#[test]
fn integer_products() {
    each_isa(|kernels, random| {
        for (block, len, mins) in [
            (32, 32, false),
            (32, 32, true),
            (256, 32, false),
            (256, 32, true),
            (256, 16, false),
            (256, 16, true),
        ] {
            for blocks in [1, 2, 3, if block == 32 { 17 } else { 4 }] {
                for rows in [0, 1, 2, 3, 4, 7, 8, 9, 13, 16, 33, 48] {
                    let groups = Groups { block, len, mins };
                    let columns = blocks * block;
                    let weights = Weights::new(random, groups, columns);
                    let x = random.floats(rows * columns);
                    for (way, found) in weights.multiply(kernels, &x, rows).iter().enumerate() {
                        for r in 0..rows {
                            let (q, x_scales) = plain_quantized(&x[r * columns..][..columns], block);
                            let truth: Vec<f32> = (0..TILE)
                                .map(|w| arithmetic::dot_q8(weights.row(w), &q, &x_scales))
                                .collect();
                            assert_eq!(
                                bits(&found[r]),
                                bits(&truth),
                                "{:?} way {way} {groups:?} {columns} columns row {r} of {rows}",
                                kernels.isa()
                            );
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn unpacked_blocks() {
    each_isa(|kernels, random| {
        for format in Format::all() {
            let Some(groups) = format.groups() else { continue };
            for blocks in [0, 1, 2, 5] {
                let bytes = random_blocks(random, format, blocks);
                let columns = blocks * format.block_len();
                let (count, blocks) = (columns / groups.len, columns / groups.block);
                let unpack = |run: &dyn Fn(Unpacked)| {
                    let (mut integers, mut factors) = (vec![0; columns], vec![0; count]);
                    let mut min_factors = vec![0; if groups.mins { count } else { 0 }];
                    let mut scales = vec![0.0; blocks];
                    let mut mins = vec![0.0; if groups.mins { blocks } else { 0 }];
                    run(Unpacked {
                        integers: &mut integers,
                        factors: &mut factors,
                        scales: &mut scales,
                        min_factors: &mut min_factors,
                        mins: &mut mins,
                    });
                    (integers, factors, bits(&scales), min_factors, bits(&mins))
                };
                let truth = unpack(&|out| format.unpack(&bytes, out));
                let found = unpack(&|out| kernels.run(Unpack { format, bytes: &bytes, out }));
                assert_eq!(found, truth, "{format} {:?}", kernels.isa());
            }
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
            let mut x = random.units(len);
            let (mut q, mut scales) = (vec![0; len], vec![0; len.div_ceil(BLOCK)]);
            kernels.run(ToBlocks { x: &x, q: &mut q, scales: &mut scales });
            let mut back = vec![0.0; len];
            kernels.run(FromBlocks { q: &q, scales: &scales, out: &mut back });
            KvType::Q8_0.round(&mut x);
            assert_eq!(bits(&back), bits(&x), "{:?} {len}", kernels.isa());
        }
    });
}

#[test]
fn attention_tiles() {
    each_isa(|kernels, random| {
        for dim in [1, 8, 16, 24, 40, 64, 80, 96, 128, 130] {
            let query = random.units(dim);
            let mut truth = (Softmax::default(), vec![0.0; dim]);
            let mut found = (Softmax::default(), vec![0.0; dim]);
            for positions in [PAGE, PAGE, 33, 16, 5, 1] {
                let (keys, values) = (random.units(PAGE * dim), random.units(PAGE * dim));
                let scale = 3.0;
                let mut scores: Vec<f32> = keys
                    .chunks(dim)
                    .take(positions)
                    .map(|key| arithmetic::dot(&query, key) * scale)
                    .collect();
                let mut out = vec![0.0; positions];
                kernels.run(Scores { query: &query, keys: &keys, scale, scores: &mut out });
                assert_eq!(bits(&out), bits(&scores), "{:?} {dim} {positions}", kernels.isa());

                let correction = truth.0.tile(&mut scores);
                let found_correction = kernels.run(SoftmaxTile { state: &mut found.0, scores: &mut out });
                assert_eq!(bits(&out), bits(&scores), "{:?} {dim} {positions}", kernels.isa());
                assert_eq!(found_correction.to_bits(), correction.to_bits());
                assert_eq!(bits(&[found.0.max, found.0.sum]), bits(&[truth.0.max, truth.0.sum]));

                truth.1.iter_mut().for_each(|acc| *acc *= correction);
                for (weight, value) in scores.iter().zip(values.chunks(dim)) {
                    arithmetic::accumulate(&mut truth.1, *weight, value);
                }
                let acc = &mut found.1;
                kernels.run(Accumulate { acc, correction: found_correction, weights: &out, values: &values });
                assert_eq!(bits(&found.1), bits(&truth.1), "{:?} {dim} {positions}", kernels.isa());
            }
        }
    });
}
