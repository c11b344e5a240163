//! Activations as integers, and layers that multiply them, against a slow definition of the same order of
//! operations: every format bit for bit, few rows against many.

use crate::linear::{
    Conversion, Input, Layout, Linear, LinearKernels, Matrix, Operands, Quantized, Rounded, RowsView, Tiling,
};
use gleed_gguf::{Format, Unpacked};
use gleed_model::arithmetic::silu;
use gleed_model::program::Activation;

use super::support::{Random, Run, Weight, assert_same, setup};
use crate::testing::{self, buffer, kernels, number, read};

/// A group of 32 activations.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Group {
    bytes: [i8; 32],
    scale: f32,
    sums: [i32; 2],
    scaled_sum: f32,
}

/// The groups of rows, as the device made them of floats that lie `gap` apart.
fn quantize(linear: &LinearKernels, rows: &[f32], columns: usize, gap: usize) -> (Quantized, Vec<Group>) {
    let count = rows.len() / columns;
    let quantized = Quantized::new(&mut kernels(), count, columns);
    let stride = columns + gap;
    let mut spread = vec![f32::NAN; count * stride + 8];
    for (r, row) in rows.chunks(columns).enumerate() {
        spread[4 + r * stride..][..columns].copy_from_slice(row);
    }
    let input = buffer(&spread);
    let batch = number(count);
    let view = RowsView { buffer: input, offset: 4, stride: stride as u32 };
    let conversion = Conversion::to_integers(&mut kernels(), linear, view, columns, quantized, batch);
    testing::run(conversion.run(count as u32));
    let words: Vec<f32> = read(quantized.buffer());
    (quantized, groups_of(&words[..count * columns.div_ceil(32) * 12]))
}

/// Groups of `[8 words of bytes][scale][sum of the first 16][of the last 16][nothing]`.
fn groups_of(words: &[f32]) -> Vec<Group> {
    let groups = words.chunks(12).map(|words| Group {
        bytes: std::array::from_fn(|i| words[i / 4].to_bits().to_le_bytes()[i % 4] as i8),
        scale: words[8],
        sums: [words[9], words[10]].map(|sum| sum.to_bits() as i32),
        scaled_sum: words[11],
    });
    groups.collect()
}

#[test]
fn activations_become_integers_as_defined() {
    let linear = &setup().1;
    let mut random = Random(21);
    let columns = 32 * 37;
    let mut rows = random.floats(3 * columns);
    // Groups of zeros, of what is too small to divide by, and with values that are far apart.
    rows[..32].fill(0.0);
    rows[32..64].fill(1e-38);
    rows[64] = 1e30;
    rows[96] = -3e-20;
    // Some that are infinite, or not numbers.
    for (index, bad) in [(128, f32::NAN), (170, f32::INFINITY), (223, -f32::NAN), (255, f32::NEG_INFINITY)] {
        rows[index] = bad;
    }
    for gap in [0, 3] {
        let (_, groups) = quantize(linear, &rows, columns, gap);
        assert_eq!(groups.len(), 3 * 37);
        for (group, values) in groups.iter().zip(rows.chunks(32)) {
            if !values.iter().all(|x| x.is_finite()) {
                assert!(!group.scale.is_finite() && group.scaled_sum.is_nan(), "{values:?}: {group:?}");
                assert_eq!((group.bytes, group.sums), ([0; 32], [0; 2]));
                continue;
            }
            let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            let (inverse, scale) =
                if largest < 4e-37 { (0.0, 0.0) } else { (127.0 / largest, largest * 0.007_874_016) };
            assert_eq!(group.scale, scale);
            for (byte, x) in group.bytes.iter().zip(values) {
                let exact = f64::from(*x) * f64::from(inverse);
                let off = (f64::from(*byte) - exact).abs();
                // A division need not be exact: only what is nearly half way may become either neighbour.
                assert!(off <= 0.5 + 1e-4, "{x} of {largest} became {byte}");
            }
            let sum = |bytes: &[i8]| bytes.iter().map(|byte| i32::from(*byte)).sum::<i32>();
            assert_eq!(group.sums, [sum(&group.bytes[..16]), sum(&group.bytes[16..])]);
            assert_eq!(group.scaled_sum, scale * sum(&group.bytes) as f32);
        }
    }
}

/// The definition: 32 chains over groups of 32 columns, whose products are integers; then their sum in order.
fn multiply(weight: &Weight, fused: bool, bias: Option<&[f32]>, groups: &[Group]) -> Vec<f32> {
    let Weight { rows, columns, format, ref file } = *weight;
    let shape = format.groups().unwrap();
    let size = rows * columns;
    let mut integers = vec![0; size];
    let (mut factors, mut min_factors) = (vec![0; size / shape.len], vec![0; size / shape.len]);
    let (mut scales, mut mins) = (vec![0.0; size / shape.block], vec![0.0; size / shape.block]);
    let unpacked = Unpacked {
        integers: &mut integers,
        factors: &mut factors,
        scales: &mut scales,
        min_factors: if shape.mins { &mut min_factors } else { &mut [] },
        mins: if shape.mins { &mut mins } else { &mut [] },
    };
    format.unpack(file, unpacked);
    let fma = |a: f32, b: f32, c: f32| if fused { a.mul_add(b, c) } else { a * b + c };
    // The parts of a group that have a scale of their own.
    let part = shape.len.min(32);
    let mut out = Vec::new();
    for input in groups.chunks(columns / 32) {
        for o in 0..rows {
            let mut chains = [0.0f32; 32];
            for (g, group) in input.iter().enumerate() {
                let chain = &mut chains[g % 32];
                let parts = (0..32).step_by(part);
                for first in parts.clone() {
                    let at = o * columns + g * 32 + first;
                    let products = integers[at..][..part].iter().zip(&group.bytes[first..]);
                    let sum: i32 = products.map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
                    let scale = scales[at / shape.block] * f32::from(factors[at / shape.len]);
                    *chain = fma(scale * group.scale, sum as f32, *chain);
                }
                for first in parts.filter(|_| shape.mins) {
                    let at = o * columns + g * 32 + first;
                    let sum: i32 = group.bytes[first..][..part].iter().map(|x| i32::from(*x)).sum();
                    let min = mins[at / shape.block] * f32::from(min_factors[at / shape.len]);
                    *chain = fma(min, group.scale * sum as f32, *chain);
                }
            }
            let sum = chains[1..].iter().fold(chains[0], |sum, chain| sum + chain);
            out.push(bias.map_or(sum, |bias| sum + bias[o]));
        }
    }
    out
}

/// A layer whose input are integers.
fn run(
    linear: &LinearKernels,
    weight: &Weight,
    bias: Option<&[f32]>,
    quantized: Quantized,
    rows: usize,
) -> Run {
    let packed = weight.upload();
    let bias = bias.map(buffer);
    Run::new([weight.columns, weight.rows, rows], &[], |operands| {
        let operands = Operands { input: Input::Integers(quantized), ..operands };
        Linear::new(&mut kernels(), linear, "test", Matrix { weight: &packed, bias }, operands)
    })
}

/// Kernels of these tilings alone, so that no other can be chosen.
fn only(tilings: &[Tiling]) -> LinearKernels {
    LinearKernels::new(&mut kernels(), &[], tilings)
}

const FEW: [Tiling; 2] = [Tiling::Few { rows: 1, outputs: 1 }, Tiling::Few { rows: 8, outputs: 2 }];
const MANY: [Tiling; 1] = [Tiling::Many { rows: 64 }];

/// All numbers of rows of one matrix against the definition, by the kernels for few rows and by that for many.
fn check(linear: &[LinearKernels], random: &mut Random, format: Format, outputs: usize, columns: usize) {
    let fused = setup().2;
    let weight = Weight::random(random, format, outputs, columns);
    let (quantized, groups) = quantize(&linear[0], &random.floats(70 * columns), columns, 0);
    let truth = multiply(&weight, fused, None, &groups);
    for (i, linear) in linear.iter().enumerate() {
        let run = run(linear, &weight, None, quantized, 70);
        for rows in [0, 1, 2, 7, 8, 9, 20, 65] {
            let what = format!("{format} {outputs} x {columns}, {rows} rows, kernels {i}");
            assert_same(&what, &run.rows(rows), &truth[..rows * outputs]);
        }
    }
}

#[test]
fn every_format_of_integers_multiplies_as_defined() {
    let (linear, mut random) = ([only(&FEW), only(&MANY)], Random(22));
    for format in Format::all().filter(|format| matches!(Layout::of(*format).0, Layout::Integers(_))) {
        let columns = if format.block_len() == 32 { 32 * 35 } else { 256 * 5 };
        check(&linear, &mut random, format, 19, columns);
    }
}

#[test]
fn integers_of_odd_shapes_multiply_as_defined() {
    let (linear, mut random) = ([only(&Tiling::INTEGERS), only(&MANY)], Random(23));
    for (outputs, columns) in [(1, 256), (17, 2304), (65, 256), (130, 4096)] {
        check(&linear, &mut random, Format::Q4_K, outputs, columns);
    }
    for (outputs, columns) in [(1, 32), (7, 96), (31, 1056)] {
        check(&linear, &mut random, Format::Q4_0, outputs, columns);
    }
}

#[test]
fn every_tiling_of_integers_gives_the_same_bits() {
    let (_, _, fused) = setup();
    let mut random = Random(24);
    for (rows, outputs) in [(1, 1), (1, 4), (2, 2), (4, 1), (8, 2)] {
        let linear = LinearKernels::new(&mut kernels(), &[], &[Tiling::Few { rows, outputs }]);
        for format in [Format::Q4_K, Format::Q6_K] {
            let weight = Weight::random(&mut random, format, 45, 1536);
            let (quantized, groups) = quantize(&linear, &random.floats(9 * 1536), 1536, 0);
            let run = run(&linear, &weight, None, quantized, 9);
            let truth = multiply(&weight, *fused, None, &groups);
            assert_same(&format!("{format} {rows} x {outputs}"), &run.rows(9), &truth);
        }
    }
}

#[test]
fn gated_and_joined_layers_of_integers_with_biases() {
    let (_, linear, fused) = setup();
    let many = only(&MANY);
    let mut random = Random(25);
    // More steps of 32 groups than are loaded ahead.
    let (outputs, columns, capacity) = (37, 2304, 66);
    let cases = [(Format::Q4_K, Format::Q4_K), (Format::Q4_K, Format::Q6_K), (Format::Q8_0, Format::Q5_0)];
    for (first, second) in cases {
        let weights = [first, second].map(|format| {
            let values = random.floats(outputs * columns);
            Weight::of(format, outputs, columns, move |i| values[i] * 0.1)
        });
        let bias = random.floats(outputs);
        let (quantized, groups) = quantize(linear, &random.floats(capacity * columns), columns, 0);
        let sums = [
            multiply(&weights[0], *fused, None, &groups),
            multiply(&weights[1], *fused, Some(&bias), &groups),
        ];
        let packed = [0, 1].map(|i| weights[i].upload());
        let device_bias = buffer(&bias);
        let matrices = [None, Some(device_bias)];
        let matrices = [0, 1].map(|i| Matrix { weight: &packed[i], bias: matrices[i] });
        let input = Input::Integers(quantized);
        let gated = Run::new([columns, outputs, capacity], &[], |operands| {
            Linear::gated(
                &mut kernels(),
                linear,
                "gated",
                Activation::Silu,
                matrices,
                Operands { input, ..operands },
            )
        });
        let joined = Run::new([columns, 2 * outputs, capacity], &[], |operands| {
            Linear::joined(&mut kernels(), linear, "joined", matrices, Operands { input, ..operands })
        });
        let both: Vec<f32> = sums[0]
            .chunks(outputs)
            .zip(sums[1].chunks(outputs))
            .flat_map(|(first, second)| [first, second].concat())
            .collect();
        let most = gated.rows(capacity);
        let by_many = Run::new([columns, outputs, capacity], &[], |operands| {
            Linear::gated(
                &mut kernels(),
                &many,
                "gated",
                Activation::Silu,
                matrices,
                Operands { input, ..operands },
            )
        });
        let joined_by_many = Run::new([columns, 2 * outputs, capacity], &[], |operands| {
            Linear::joined(&mut kernels(), &many, "joined", matrices, Operands { input, ..operands })
        });
        assert_same("many rows, gated", &by_many.rows(capacity), &most);
        assert_same("many rows, joined", &joined_by_many.rows(capacity), &both);
        for rows in [1, 2, 4, 8, 9, 17, 66] {
            assert_same("fewer rows", &gated.rows(rows), &most[..rows * outputs]);
            assert_same("joined", &joined.rows(rows), &both[..rows * 2 * outputs]);
        }
        for (i, got) in most.iter().enumerate() {
            let truth = silu(sums[0][i]) * sums[1][i];
            let error = (got - truth).abs() / truth.abs().max(1e-12);
            assert!(error <= 1e-6, "{first} {second}: {got} is not {truth}");
        }
    }
}

/// What a gated layer writes as integers is what quantizing its floats gives.
#[test]
fn gated_layers_write_integers_too() {
    let (_, linear, _) = setup();
    let mut random = Random(28);
    let (outputs, columns, capacity) = (96, 256, 4);
    let weights = [(); 2].map(|()| Weight::random(&mut random, Format::Q4_K, outputs, columns).upload());
    let (quantized, _) = quantize(linear, &random.floats(capacity * columns), columns, 0);
    let integers = Quantized::new(&mut kernels(), capacity, outputs);
    let mut gated = None;
    let run = Run::new([columns, outputs, capacity], &[], |operands| {
        let matrices = [0, 1].map(|i| Matrix { weight: &weights[i], bias: None });
        let input = Input::Integers(quantized);
        let operands = Operands { input, rounded: Some(Rounded::Integers(integers)), ..operands };
        let layer = Linear::gated(&mut kernels(), linear, "gated", Activation::Silu, matrices, operands)?;
        gated = Some(layer.clone());
        Ok(layer)
    });
    let gated = gated.unwrap();
    assert!((1..=2).all(|rows| gated.requantizes(rows)) && !gated.requantizes(3) && !gated.requantizes(64));
    for rows in 1..=2 {
        let floats = run.rows(rows);
        let (_, expected) = quantize(linear, &floats, outputs, 0);
        let words: Vec<f32> = read(integers.buffer());
        assert_eq!(groups_of(&words[..12 * expected.len()]), expected, "{rows} rows");
    }
}

#[test]
fn a_row_of_integers_does_not_depend_on_its_neighbours() {
    let (linear, many) = (&setup().1, only(&MANY));
    let mut random = Random(26);
    let weight = Weight::random(&mut random, Format::Q6_K, 40, 1024);
    let row = random.floats(1024);
    let (quantized, _) = quantize(linear, &row, 1024, 0);
    let alone = run(linear, &weight, None, quantized, 1).rows(1);
    for (rows, place) in [(2, 1), (5, 3), (8, 7), (9, 0), (33, 32), (65, 64), (70, 40)] {
        let mut input = random.floats(rows * 1024);
        // Neighbours that would spoil everything they touch.
        input.iter_mut().step_by(7).for_each(|x| *x = f32::INFINITY);
        input[place * 1024..][..1024].copy_from_slice(&row);
        let (quantized, _) = quantize(linear, &input, 1024, 0);
        for linear in [linear, &many] {
            let all = run(linear, &weight, None, quantized, rows).rows(rows);
            assert_same(&format!("row {place} of {rows}"), &all[place * 40..][..40], &alone);
        }
    }
}

#[test]
fn floats_are_no_matrix_of_integers() {
    let (_, linear, _) = setup();
    let mut random = Random(27);
    let weight = Weight::random(&mut random, Format::F16, 8, 64).upload();
    let quantized = Quantized::new(&mut kernels(), 1, 64);
    let out = buffer(&[0.0; 8]);
    let batch = number(0);
    let output = RowsView { buffer: out, offset: 0, stride: 8 };
    let operands = Operands { input: Input::Integers(quantized), output, rounded: None, batch };
    let matrix = Matrix { weight: &weight, bias: None };
    let error = Linear::new(&mut kernels(), linear, "floats", matrix, operands).unwrap_err();
    assert!(error.to_string().contains("integers"), "{error}");
}
