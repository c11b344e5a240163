//! Linear layers against a slow definition of the same order of operations, bit for bit, for every format;
//! few rows against many; and views, biases, gates and cut matrices.

pub(crate) mod emulation;
mod half_norms;
pub(crate) mod halves;
mod integers;
pub(crate) mod support;
pub(crate) mod translation;

use crate::linear::{Input, Layout, Linear, LinearKernels, Matrix, Operands, PackedWeight, RowsView, Tiling};
use gleed_gguf::Format;
use gleed_model::arithmetic::{gelu, silu};
use gleed_model::program::Activation;

use crate::testing::{buffer, kernels, number};
use support::{Random, Run, SOME, Weight, assert_same, setup};

/// All numbers of rows of one matrix against the definition.
fn check(linear: &LinearKernels, random: &mut Random, format: Format, outputs: usize, columns: usize) {
    let (_, _, fused) = setup();
    let weight = Weight::random(random, format, outputs, columns);
    let input = random.floats(70 * columns);
    let truth = weight.multiply(*fused, None, &input);
    let run = Run::plain(linear, &weight, None, &input, 70);
    for rows in [0, 1, 2, 7, 8, 9, 20, 65] {
        let what = format!("{format} {outputs} x {columns}, {rows} rows");
        assert_same(&what, &run.rows(rows), &truth[..rows * outputs]);
    }
}

fn formats(groups: impl Fn(Format) -> bool) -> Vec<Format> {
    Format::all().filter(|format| groups(*format)).collect()
}

#[test]
fn native_formats_multiply_as_defined() {
    let mut random = Random(1);
    let linear = LinearKernels::new(&mut kernels(), &SOME, &[]);
    for format in formats(|f| f.block_len() > 1 && !Layout::of(f).1) {
        let columns = if format.block_len() == 32 { 32 * 11 } else { 256 * 3 };
        check(&linear, &mut random, format, 33, columns);
    }
}

#[test]
fn converted_formats_multiply_as_defined() {
    let mut random = Random(2);
    let linear = LinearKernels::new(&mut kernels(), &SOME, &[]);
    for format in formats(|f| f.block_len() > 1 && Layout::of(f).1) {
        check(&linear, &mut random, format, 17, 512);
    }
}

#[test]
fn floats_of_any_width_multiply_as_defined() {
    let (linear, mut random) = (&setup().1, Random(3));
    for format in [Format::F32, Format::F16, Format::BF16] {
        for (outputs, columns) in [(1, 1), (33, 33), (5, 300), (66, 64)] {
            check(linear, &mut random, format, outputs, columns);
        }
    }
    check(linear, &mut random, Format::I8, 3, 40);
}

#[test]
fn odd_shapes_multiply_as_defined() {
    let (linear, mut random) = (&setup().1, Random(4));
    for (outputs, columns) in [(1, 256), (16, 2304), (65, 256), (130, 4096)] {
        check(linear, &mut random, Format::Q4_K, outputs, columns);
    }
    for (outputs, columns) in [(1, 32), (7, 96), (31, 1056)] {
        check(linear, &mut random, Format::Q4_0, outputs, columns);
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    let (_, linear, _) = setup();
    let mut random = Random(5);
    let weight = Weight::random(&mut random, Format::Q5_K, 40, 1024);
    let row = random.floats(1024);
    let alone = Run::plain(linear, &weight, None, &row, 1).rows(1);
    for (rows, place) in [(2, 1), (5, 3), (8, 7), (9, 0), (33, 32), (65, 64), (70, 40)] {
        let mut input = random.floats(rows * 1024);
        // Neighbours that would spoil everything they touch.
        input.iter_mut().step_by(7).for_each(|x| *x = f32::INFINITY);
        input[place * 1024..][..1024].copy_from_slice(&row);
        let all = Run::plain(linear, &weight, None, &input, rows).rows(rows);
        assert_same(&format!("row {place} of {rows}"), &all[place * 40..][..40], &alone);
    }
}

#[test]
fn two_outputs_of_a_slot_give_the_same_bits() {
    let (_, _, fused) = setup();
    let mut random = Random(6);
    for rows in [1, 2, 4] {
        let linear = LinearKernels::new(&mut kernels(), &[Tiling::Few { rows, outputs: 2 }], &[]);
        for format in [Format::Q4_K, Format::Q6_K, Format::Q8_0] {
            let weight = Weight::random(&mut random, format, 50, 768);
            let input = random.floats(9 * 768);
            let run = Run::plain(&linear, &weight, None, &input, 9);
            let truth = weight.multiply(*fused, None, &input);
            assert_same(&format!("{format} {rows}"), &run.rows(9), &truth);
        }
    }
}

#[test]
fn biases_are_added_last() {
    let (_, linear, fused) = setup();
    let mut random = Random(7);
    let weight = Weight::random(&mut random, Format::Q4_1, 35, 64);
    let (bias, input) = (random.floats(35), random.floats(20 * 64));
    let truth = weight.multiply(*fused, Some(&bias), &input);
    let run = Run::plain(linear, &weight, Some(&bias), &input, 20);
    for rows in [1, 3, 20] {
        assert_same("bias", &run.rows(rows), &truth[..rows * 35]);
    }
}

/// The gate's activation is a few roundings that a device may do its own way; few and many rows must still be
/// the same bits, and the value within a few units in the last place of the definition's.
#[test]
fn gated_layers_multiply_activate_and_multiply() {
    let (_, linear, fused) = setup();
    let mut random = Random(8);
    let cases = [
        (Format::Q4_K, Format::Q4_K, Activation::Silu, false),
        (Format::Q4_K, Format::Q6_K, Activation::Gelu, true),
        (Format::F16, Format::Q8_0, Activation::Silu, true),
    ];
    for (gate, up, activation, biased) in cases {
        let (outputs, columns, capacity) = (37, 512, 66);
        let weights = [gate, up].map(|format| {
            let scale = 0.1;
            Weight::of(format, outputs, columns, {
                let values = random.floats(outputs * columns);
                move |i| values[i] * scale
            })
        });
        let biases = [(); 2].map(|()| random.floats(outputs));
        // Only the second has a bias, so that the first must be left as it is.
        let bias = |i: usize| (biased && i == 1).then_some(&biases[i][..]);
        let input = random.floats(capacity * columns);
        let sums = [0, 1].map(|i| weights[i].multiply(*fused, bias(i), &input));
        let packed = [0, 1].map(|i| weights[i].upload());
        let device_bias = buffer(&biases[1]);
        let run = Run::new([columns, outputs, capacity], &input, |operands| {
            let bias = [None, biased.then_some(device_bias)];
            let matrices = [0, 1].map(|i| Matrix { weight: &packed[i], bias: bias[i] });
            Linear::gated(&mut kernels(), linear, "gated", activation, matrices, operands)
        });
        let most = run.rows(capacity);
        for rows in [1, 2, 4, 8, 9, 17, 65] {
            assert_same("fewer rows", &run.rows(rows), &most[..rows * outputs]);
        }
        for (i, got) in most.iter().enumerate() {
            let activate = if activation == Activation::Silu { silu } else { gelu };
            let truth = activate(sums[0][i]) * sums[1][i];
            let error = (got - truth).abs() / truth.abs().max(1e-12);
            assert!(error <= 1e-6, "{gate} {up}: {got} is not {truth}");
        }
    }
}

#[test]
fn joined_matrices_give_their_outputs_one_after_the_other() {
    let (_, linear, fused) = setup();
    let mut random = Random(12);
    let first = Weight::random(&mut random, Format::Q4_K, 37, 768);
    let second = Weight::random(&mut random, Format::Q6_K, 45, 768);
    let (bias, input) = (random.floats(45), random.floats(66 * 768));
    let device_bias = buffer(&bias);
    let sums = [first.multiply(*fused, None, &input), second.multiply(*fused, Some(&bias), &input)];
    let truth: Vec<f32> =
        sums[0].chunks(37).zip(sums[1].chunks(45)).flat_map(|(a, b)| [a, b].concat()).collect();
    // In one piece each, and the second in several.
    for largest in [1 << 20, 384 * 33] {
        let upload = |weight: &Weight, largest| weight.upload_as(weight.packing(), largest, &mut |_| {});
        let packed = [upload(&first, 1 << 20).unwrap(), upload(&second, largest).unwrap()];
        let run = Run::new([768, 82, 66], &input, |operands| {
            let matrices = [
                Matrix { weight: &packed[0], bias: None },
                Matrix { weight: &packed[1], bias: Some(device_bias) },
            ];
            Linear::joined(&mut kernels(), linear, "joined", matrices, operands)
        });
        for rows in [1, 3, 8, 16, 66] {
            assert_same("joined", &run.rows(rows), &truth[..rows * 82]);
        }
    }
}

#[test]
fn large_matrices_arrive_whole() {
    // More than threads have on their way at a time; each row has one value, which is its own.
    let (_, linear, _) = setup();
    let (rows, columns) = (24 << 10, 512);
    let own = |row: usize| (row % columns, (row % 2039) as f32);
    let mut file = vec![0; rows * columns * 2];
    for (row, bytes) in file.chunks_mut(2 * columns).enumerate() {
        let (column, value) = own(row);
        bytes[2 * column..][..2].copy_from_slice(&half::f16::from_f32(value).to_bits().to_le_bytes());
    }
    let weight = Weight { format: Format::F16, rows, columns, file };
    let input: Vec<f32> = (0..columns).map(|column| (column % 7) as f32 - 3.0).collect();
    let truth: Vec<f32> = (0..rows).map(own).map(|(column, value)| value * input[column] + 0.0).collect();
    let run = Run::plain(linear, &weight, None, &input, 1);
    assert_same("large", &run.rows(1), &truth);
}

#[test]
fn matrices_larger_than_a_binding_are_cut_by_rows() {
    let (_, linear, fused) = setup();
    let mut random = Random(9);
    let gate = Weight::random(&mut random, Format::Q4_K, 110, 512);
    let up = Weight::random(&mut random, Format::Q6_K, 110, 512);
    let input = random.floats(10 * 512);
    let upload = |weight: &Weight, largest: u64| {
        let mut bytes = 0;
        let packed = weight.upload_as(weight.packing(), largest, &mut |n| bytes += n);
        assert!(packed.is_err() || bytes == weight.packing().bytes());
        packed
    };
    assert!(matches!(upload(&gate, 256 * 32 - 1), Err(crate::Error::Limit { .. })));
    let [cut, whole] = [256 * 40, 1 << 20].map(|largest| upload(&gate, largest).unwrap());
    let other = upload(&up, 256 * 70).unwrap();
    let plain = |packed: &PackedWeight| {
        Run::new([512, 110, 10], &input, |operands| {
            Linear::new(&mut kernels(), linear, "cut", Matrix { weight: packed, bias: None }, operands)
        })
    };
    let gated = |packed: &PackedWeight| {
        let matrices = [packed, &other].map(|weight| Matrix { weight, bias: None });
        Run::new([512, 110, 10], &input, |operands| {
            Linear::gated(&mut kernels(), linear, "cut", Activation::Silu, matrices, operands)
        })
    };
    let truth = gate.multiply(*fused, None, &input);
    for rows in [1, 10] {
        assert_same("cut", &plain(&cut).rows(rows), &truth[..rows * 110]);
        assert_same("cut gate", &gated(&cut).rows(rows), &gated(&whole).rows(rows));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (_, linear, _) = setup();
    let mut random = Random(10);
    let [weight, other] = [8, 9].map(|rows| Weight::random(&mut random, Format::Q8_0, rows, 32).upload());
    let floats = buffer(&[0.0; 64]);
    let out = buffer(&[0.0; 64]);
    let batch = number(0);
    let operands = Operands {
        input: Input::Floats(RowsView { buffer: floats, offset: 0, stride: 32 }),
        output: RowsView { buffer: out, offset: 0, stride: 8 },
        rounded: None,
        batch,
    };
    let plain = |weight| Matrix { weight, bias: None };
    let bias = Matrix { weight: &weight, bias: Some(batch) };
    let error = Linear::new(&mut kernels(), linear, "short", bias, operands).unwrap_err();
    assert!(error.to_string().contains("8 values"), "{error}");
    let both = [plain(&weight), plain(&other)];
    let error = Linear::gated(&mut kernels(), linear, "two", Activation::Silu, both, operands).unwrap_err();
    assert!(error.to_string().contains("9 x 32"), "{error}");
}

/// A layer that no kernel multiplies is refused when it is made: its results would be missing.
#[test]
fn a_matrix_without_a_kernel_is_refused() {
    let weight = Weight::random(&mut Random(12), Format::Q8_0, 8, 32).upload();
    let floats = buffer(&[0.0; 64]);
    let out = buffer(&[0.0; 64]);
    let batch = number(0);
    let operands = Operands {
        input: Input::Floats(RowsView { buffer: floats, offset: 0, stride: 32 }),
        output: RowsView { buffer: out, offset: 0, stride: 8 },
        rounded: None,
        batch,
    };
    let none = LinearKernels::new(&mut kernels(), &[], &Tiling::INTEGERS);
    let matrix = Matrix { weight: &weight, bias: None };
    let error =
        Linear::new(&mut kernels(), &none, "blk.0.ffn_up.weight", matrix, operands).unwrap_err().to_string();
    assert!(error.starts_with("tensor blk.0.ffn_up.weight: "), "{error}");
    assert!(error.contains("floats") && error.contains("threads"), "{error}");
}
