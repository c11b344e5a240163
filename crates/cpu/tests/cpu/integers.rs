//! Integer kernels, each on every instruction set that this machine has, against the plain definitions of
//! `gleed_model::arithmetic` and `gleed_gguf`, bit for bit: quantised activations, products of panels on the
//! vector unit and on the tile unit, unpacked blocks.

use crate::common::{
    Random, bits, comparable, each_isa, in_blocks, plain_quantized, random_blocks, without_numbers,
};
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::blocked::{BLOCK_ROWS, Blocked};
use gleed_cpu::kernels::integer::{Integers, Multiply, Pack, Panel};
use gleed_cpu::kernels::quantize::{Quantize, Quantized, QuantizedRow, Remainder, row_words};
use gleed_cpu::kernels::tile::{Line, TILE};
use gleed_cpu::kernels::unpack::Unpack;
use gleed_gguf::{Format, Groups, Unpacked};
use gleed_model::arithmetic::{self, IntegerRow};

#[test]
fn quantised_rows() {
    each_isa(|kernels, random| {
        for (block, blocks) in [(32, 0), (32, 1), (32, 3), (32, 18), (256, 0), (256, 1), (256, 5)] {
            let specials = [f32::NAN, -f32::NAN, f32::INFINITY, 1e-40, 0.0, 3e38];
            // In every fifth column, or (of larger steps, from anywhere on) in a few blocks only.
            for (special, step) in [None].into_iter().chain(specials.map(Some)).zip([5, 1000].repeat(4)) {
                let columns = blocks * block;
                let mut x = random.floats(columns);
                if let Some(special) = special {
                    let first = if step == 5 { 0 } else { random.below(columns + 1) };
                    x.iter_mut().skip(first).step_by(step).for_each(|x| *x = special);
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
                    assert_eq!(
                        comparable(row.scales),
                        comparable(&scales),
                        "{:?} {special:?}",
                        kernels.isa()
                    );
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
            let (lines, row_blocks) = (in_blocks(kernels, x), rows.div_ceil(BLOCK_ROWS));
            let columns = self.columns;
            let blocked = Blocked { lines: &lines, row_blocks, stride: row_blocks, columns, block };
            let mut scratch = vec![Line([-1; 16]); kernels.tile_scratch()];
            for panels in [&[panel][..], &[panel; 2], &[panel; 3], &[panel; 4]] {
                let stride = (row_blocks + 1) * BLOCK_ROWS;
                let mut out = vec![[f32::NAN; TILE]; panels.len() * stride];
                kernels.multiply_blocks(panels, blocked, &[], &mut out, stride, &mut scratch);
                found.extend(out.chunks(stride).map(|out| out[..rows].to_vec()));
            }
        }
        found
    }
}

/// Blocks, groups and mins of all kinds.
const KINDS: [(usize, usize, bool); 6] =
    [(32, 32, false), (32, 32, true), (256, 32, false), (256, 32, true), (256, 16, false), (256, 16, true)];

/// Compares the products with `rows` rows of activations, in every way that there is.
fn check(kernels: Kernels, weights: &Weights, x: &[f32], rows: usize) {
    let Weights { groups, columns, .. } = *weights;
    for (way, found) in weights.multiply(kernels, x, rows).iter().enumerate() {
        for (r, found) in found.iter().enumerate() {
            let (q, x_scales) = plain_quantized(&x[r * columns..][..columns], groups.block);
            let truth: Vec<f32> =
                (0..TILE).map(|w| arithmetic::dot_q8(weights.row(w), &q, &x_scales)).collect();
            assert_eq!(
                comparable(found),
                comparable(&truth),
                "{:?} way {way} {groups:?} {columns} columns row {r} of {rows}",
                kernels.isa()
            );
        }
    }
}

#[test]
fn integer_products() {
    each_isa(|kernels, random| {
        for (block, len, mins) in KINDS {
            for blocks in [1, 2, 3, if block == 32 { 17 } else { 4 }] {
                for rows in [0, 1, 2, 3, 4, 7, 8, 9, 13, 16, 33, 48] {
                    let columns = blocks * block;
                    let weights = Weights::new(random, Groups { block, len, mins }, columns);
                    let mut x = random.floats(rows * columns);
                    without_numbers(random, &mut x, columns);
                    check(kernels, &weights, &x, rows);
                }
            }
        }
    });
}

/// Nothing but the largest weights and activations, on both sides of where sums have fewer bits.
#[test]
fn integer_products_of_the_largest() {
    each_isa(|kernels, random| {
        for (block, len, mins) in KINDS {
            for largest in [15, 16, 17, 32, 33, 127, -16, -17, -32, -33, -128] {
                let mut weights = Weights::new(random, Groups { block, len, mins }, 2 * block);
                weights.integers.fill(largest);
                let x: Vec<f32> =
                    (0..20).flat_map(|row| vec![if row % 2 == 0 { 1.0 } else { -1.0 }; 2 * block]).collect();
                check(kernels, &weights, &x, 20);
            }
        }
    });
}

/// Weights of as few bits as most formats have, and activations whose sums of products fit sixteen bits, all but do, and
/// do not: the first rows of a block decide for all of it.
#[test]
fn integer_products_of_few_bits() {
    each_isa(|kernels, random| {
        for (block, len, mins) in KINDS {
            for bits in [2, 4, 6] {
                for rows in [1, 16, 33] {
                    let columns = 2 * block;
                    let mut weights = Weights::new(random, Groups { block, len, mins }, columns);
                    weights.integers.iter_mut().for_each(|weight| *weight >>= 8 - bits);
                    let mut x = random.floats(rows * columns);
                    check(kernels, &weights, &x, rows);
                    x[..columns].iter_mut().for_each(|x| *x = x.signum());
                    check(kernels, &weights, &x, rows);
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
