//! Every kernel on every instruction set that this machine has, against `gleed_model::arithmetic`, bit
//! for bit, over random shapes.

mod common;

use common::{Random, bits, random_blocks};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::activate::Activate;
use gleed_cpu::kernels::add::Add;
use gleed_cpu::kernels::attention::{Accumulate, Page, Scores, interleave};
use gleed_cpu::kernels::blocked::{BLOCK_ROWS, Blocked, block_lines, chunks, fill_block};
use gleed_cpu::kernels::chain::{Bf16, Stored};
use gleed_cpu::kernels::convert::{FromBf16, FromHalf, FromKeyBlocks, FromValueBlocks, ToBlocks, ToHalf};
use gleed_cpu::kernels::dot::{DOT_ROWS, Dots, Rows};
use gleed_cpu::kernels::integer::{Integers, Multiply, Pack, Panel, Quantized, TILE};
use gleed_cpu::kernels::norm::Norm;
use gleed_cpu::kernels::packed::Line;
use gleed_cpu::kernels::quantize::{Quantize, QuantizedRow, Remainder, row_words};
use gleed_cpu::kernels::rope::Rotate;
use gleed_cpu::kernels::softmax::{Finish, Merge, SoftmaxTiles};
use gleed_cpu::kernels::unpack::Unpack;
use gleed_gguf::{Format, Groups, Unpacked};
use gleed_model::KvType;
use gleed_model::arithmetic::{self, BLOCK, IntegerRow, LANES, PAGE, Softmax};
use gleed_model::program::Activation;
use gleed_model::rope::{Pairing, Rope, Scaling};
use half::{bf16, f16};

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
                let uneven = kernels.run(Quantize { x: &x, block, words: &mut words });
                let mut blocks = q.chunks(block).zip(&scales);
                assert_eq!(uneven, block == 256 && blocks.any(|(q, scale)| arithmetic::is_uneven(q, *scale)));
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

#[test]
fn uneven_rows_and_what_is_left_of_them() {
    each_isa(|kernels, random| {
        for (blocks, factor, uneven) in [(1, 1.0, false), (1, 30.0, false), (1, 60.0, true), (5, 1e4, true)] {
            let mut x = random.units(256 * blocks);
            let column = random.below(x.len());
            x[column] = factor;
            let mut words = vec![0; row_words(x.len(), 256)];
            assert_eq!(kernels.run(Quantize { x: &x, block: 256, words: &mut words }), uneven, "{factor}");
            let quantized = QuantizedRow::new(&words, x.len(), 256, 32);
            let (mut found, mut truth) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            kernels.run(Remainder { x: &x, quantized, out: &mut found });
            let (q, scales) = plain_quantized(&x, 256);
            for (b, scale) in scales.iter().enumerate() {
                let block = b * 256..(b + 1) * 256;
                arithmetic::remainder(&x[block.clone()], &q[block.clone()], *scale, &mut truth[block]);
            }
            assert_eq!(bits(&found), bits(&truth));
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
            integers: Integers::Words(&words[..self.columns / 4]),
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
            let mut scratch = vec![Line([-1; 16]); kernels.tile_scratch()];
            for panels in [&[panel][..], &[panel; 2]] {
                let stride = row_blocks * BLOCK_ROWS + 1;
                let mut out = vec![[f32::NAN; TILE]; panels.len() * stride];
                kernels.multiply_blocks(panels, blocked, &[], &mut out, stride, &mut scratch);
                found.extend(out.chunks(stride).map(|out| out[..rows].to_vec()));
            }
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
            let scale = |column: usize| f16::from_bits(scales[column / BLOCK]).to_f32();
            let back: Vec<f32> = q.iter().enumerate().map(|(i, q)| f32::from(*q) * scale(i)).collect();
            KvType::Q8_0.round(&mut x);
            assert_eq!(bits(&back), bits(&x), "{:?} {len}", kernels.isa());
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
        dim: usize,
        vectors: usize,
        place: impl Fn(usize, usize) -> (usize, usize),
        scale_place: impl Fn(usize, usize) -> usize,
    ) -> StoredPage {
        let mut plain = random.units(PAGE * dim);
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

    fn keys(random: &mut Random, kind: KvType, dim: usize) -> StoredPage {
        let groups = dim.div_ceil(BLOCK);
        let place = |position, column| (position / LANES * dim + column, position % LANES);
        let scale_place = |position, block| (position / LANES * groups + block) * LANES + position % LANES;
        StoredPage::new(random, kind, dim, PAGE / LANES * dim, place, scale_place)
    }

    fn values(random: &mut Random, kind: KvType, dim: usize) -> StoredPage {
        let (vectors, groups) = (dim.div_ceil(LANES), dim.div_ceil(BLOCK));
        let place = |position, column| (position * vectors + column / LANES, column % LANES);
        StoredPage::new(random, kind, dim, PAGE * vectors, place, |position, block| position * groups + block)
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
fn counts(random: &mut Random, queries: usize) -> Vec<usize> {
    let (case, first) = (random.below(5), random.below(PAGE + 1));
    let count = |q: usize, random: &mut Random| match case {
        0 => PAGE,
        1 => random.below(PAGE + 1),
        2 => first,
        3 => (first + q / 3).min(PAGE),
        _ => (q + 1).min(PAGE),
    };
    (0..queries).map(|q| count(q, random)).collect()
}

#[test]
fn attention_pages() {
    each_isa(|kernels, random| {
        for kind in KV_TYPES {
            for dim in [1, 8, 12, 16, 24, 40, 48, 64, 80, 96, 112, 128, 130, 256] {
                for queries in [1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 29] {
                    attention_page(kernels, random, kind, dim, queries);
                }
            }
        }
    });
}

/// Three pages one after the other, with keys of one size and values of another.
fn attention_page(kernels: Kernels, random: &mut Random, kind: KvType, dim: usize, queries: usize) {
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
        let counts = counts(random, queries);
        let what = format!("{isa} {kind} {queries} queries of {dim}, {counts:?}");
        let keys = StoredPage::keys(random, kind, dim);
        let values = StoredPage::values(random, kind, value_dim);
        let page = keys.page();
        // Any memory may be asked for ahead: here less, there more than a line for each step.
        let ahead: &[u8] = &vec![0; random.below(3) * random.below(20_000)];
        kernels.run(Scores {
            queries: &interleaved,
            keys: page,
            counts: &counts,
            scale,
            ahead,
            scores: &mut scores,
        });
        let mut weights: Vec<Vec<f32>> = Vec::new();
        for (q, query) in query.chunks(dim).enumerate() {
            let keys = keys.plain.chunks(dim).take(counts[q]);
            weights.push(keys.map(|key| arithmetic::score(query, key, scale)).collect());
            assert_eq!(bits(&scores[q][..counts[q]]), bits(&weights[q]), "{what}");
        }
        kernels.run(SoftmaxTiles {
            states: &mut states,
            counts: &counts,
            scores: &mut scores,
            corrections: &mut corrections,
        });
        let (weight_rows, page) = (&scores, values.page());
        kernels.run(Accumulate {
            acc: &mut acc,
            corrections: &corrections,
            counts: &counts,
            weights: weight_rows,
            values: page,
            ahead,
        });
        for (q, (softmax, sums)) in truth.iter_mut().enumerate() {
            if counts[q] > 0 {
                let correction = softmax.tile(&mut weights[q]);
                assert_eq!(corrections[q].to_bits(), correction.to_bits(), "{what}");
                assert_eq!(bits(&scores[q][..counts[q]]), bits(&weights[q]), "{what}");
                sums.iter_mut().for_each(|sum| *sum *= correction);
                for (weight, value) in weights[q].iter().zip(values.plain.chunks(value_dim)) {
                    arithmetic::accumulate(sums, *weight, value);
                }
            }
            assert_eq!(bits(&[states[q].max, states[q].sum]), bits(&[softmax.max, softmax.sum]), "{what}");
            let found = acc[q * vectors..][..vectors].as_flattened();
            assert_eq!(bits(&found[..value_dim]), bits(sums), "{what}");
        }
    }
}

#[test]
fn merged_spans() {
    each_isa(|kernels, random| {
        for vectors in [1, 4, 5, 8] {
            let (mut truth, mut truth_acc) = (Softmax::default(), vec![0.0f32; vectors * LANES]);
            let (mut state, mut acc) = (Softmax::default(), vec![[0.0; LANES]; vectors]);
            for _ in 0..20 {
                let span = Softmax { max: 9.0 * random.unit(), sum: 1.0 + 50.0 * random.unit().abs() };
                let values = random.floats(vectors * LANES);
                let (before, after) = truth.merge(span);
                for (acc, value) in truth_acc.iter_mut().zip(&values) {
                    *acc = acc.mul_add(before, value * after);
                }
                let span_acc = values.as_chunks().0;
                kernels.run(Merge { state: &mut state, acc: &mut acc, span, span_acc });
                assert_eq!(bits(&[state.max, state.sum]), bits(&[truth.max, truth.sum]));
                assert_eq!(bits(acc.as_flattened()), bits(&truth_acc), "{:?}", kernels.isa());
            }
        }
    });
}

#[test]
fn decoded_pages() {
    each_isa(|kernels, random| {
        for dim in [1, 12, 24, 32, 40, 64, 80, 128] {
            let (keys, values) =
                (StoredPage::keys(random, KvType::Q8_0, dim), StoredPage::values(random, KvType::Q8_0, dim));
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
