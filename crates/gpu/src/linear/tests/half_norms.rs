//! RMS norms between layers in halves: what they write, and layers of a single row that write the same.

use gleed_gguf::Format;
use gleed_model::arithmetic::{HalfRow, dot_halves, half_activations, rms_factor, rms_norm};
use gleed_model::program::Activation;
use half::f16;

use super::emulation::emulating;
use super::halves::{half_matrix, multiply, to_halves, upload};
use super::support::{Random, Run, UNTOUCHED, Weight, Written, assert_same, setup};
use crate::Gpu;
use crate::kernels::Place;
use crate::kernels::norm::{Also, Norm, norm};
use crate::linear::{
    HalfRows, Input, Linear, LinearKernels, Matrix, NextNorm, Operands, Rounded, Tiling, half_units,
};
use crate::step::Counts;
use crate::testing::{self, buffer, kernels, read, write};

/// What a norm writes as floats and as halves.
fn normed(of: Norm, products: bool, input: &[f32], width: usize) -> (Vec<f32>, Written) {
    let rows = input.len() / width;
    let stride = width.next_multiple_of(4);
    let mut spread = vec![0.0; rows * stride];
    for (row, values) in input.chunks(width).enumerate() {
        spread[row * stride..][..width].copy_from_slice(values);
    }
    let (input, out) = (buffer(&spread), buffer(&vec![0.0; rows * stride]));
    let halves = HalfRows::new(&mut kernels(), rows, width);
    let place = |buffer| Place { buffer, offset: 0, stride, width };
    let also = if products { Also::HalfProducts(halves) } else { Also::Halves(halves) };
    let dispatch = norm(&mut kernels(), of, 1, place(input), None, place(out), also);
    testing::run(dispatch.run(Counts { rows, ..Counts::default() }));
    let floats = read(out);
    (floats, Written::read(halves, width))
}

/// A row's values times a norm's weights.
fn times(values: &[f32], weights: &[f32]) -> Vec<f32> {
    values.iter().zip(weights).map(|(x, w)| x * w).collect()
}

/// An RMS norm of whole groups writes the halves of its input times its weights, and its factor beside them; others those
/// of what they write as floats. Those are the norm.
#[test]
fn norms_write_halves() {
    let mut random = Random(37);
    let shapes = [
        (1, false, false),
        (100, false, false),
        (1184, true, false),
        (2052, false, false),
        (32, false, true),
        (1056, false, true),
        (4096, false, true),
    ];
    for (width, is_layer_norm, products) in shapes {
        let rows = 3;
        let mut values = random.floats(rows * width);
        values[0] = 5e4;
        let stride = width.next_multiple_of(4);
        let [weights, biases] = [(); 2].map(|()| random.floats(stride));
        let (weight, bias) = (buffer(&weights), buffer(&biases));
        let bias = is_layer_norm.then_some(bias);
        let of = Norm { weight, bias, epsilon: 1e-5, of_heads: false };
        let (floats, written) = normed(of, products, &values, width);
        for (row, own) in values.chunks(width).enumerate() {
            let floats = &floats[row * stride..][..width];
            let HalfRow { values: halves, factor } = match products {
                true => half_activations(&times(own, &weights)),
                false => half_activations(floats),
            };
            let (found, expected) = match products {
                true => (written.factor(row), factor * rms_factor(own, 1e-5)),
                false => (written.factor(row), factor),
            };
            let most = if products { 2e-6 * expected } else { 0.0 };
            assert!((found - expected).abs() <= most, "{width}: {found}, not {expected} for row {row}");
            for column in 0..width.div_ceil(128) * 128 {
                let expected = halves.get(column).copied().unwrap_or(f16::ZERO);
                assert_eq!(written.half(row, column), expected, "{width}: row {row}, column {column}");
            }
            if row == 0 {
                let groups = written.group_factors(width);
                assert!(groups.iter().all(|group| *group == factor), "{width}: {groups:?}, not {factor}");
                if products {
                    written.assert_squares(&width.to_string(), own);
                }
            }
            if !is_layer_norm {
                let mut truth = vec![0.0; width];
                rms_norm(own, &weights[..width], 1e-5, &mut truth);
                for (x, truth) in floats.iter().zip(truth) {
                    assert!((x - truth).abs() <= 2e-6 * truth.abs(), "{width}: {x}, not {truth}");
                }
            }
        }
    }
}

/// Kernels for a single row of `columns` columns.
fn single(gpu: &Gpu, columns: usize, gated: bool) -> LinearKernels {
    if half_units(&gpu.info) {
        return LinearKernels::new(&mut kernels(), &[], &[]);
    }
    let (split, across) = (columns.div_ceil(512) as u32, if gated { 2 } else { 1 });
    emulating(Tiling::Halves { rows: 1, split, across })
}

/// Room for a row in which there is something already, and for more columns.
fn used(columns: usize) -> HalfRows {
    let halves = HalfRows::new(&mut kernels(), 1, columns + 256);
    let words = vec![0x7bff_7bffu32; halves.buffer().size() as usize / 4];
    write(halves.buffer(), &words);
    halves
}

/// A layer of a single row that adds to its output writes what a norm would; one that reads that has the bits of one that
/// reads what a norm has written.
#[test]
fn norms_and_sums_within_layers_are_those_outside() {
    let gpu = &setup().0;
    let mut random = Random(38);
    let real = half_units(&gpu.info);
    // Columns of both layers: those between are normed.
    for (first, columns) in if real { vec![(96, 64), (1536, 4096), (12288, 5120)] } else { vec![(512, 96)] } {
        let outputs = 19;
        let [adding, weight] = [(columns, first), (outputs, columns)]
            .map(|(rows, columns)| Weight::random(&mut random, Format::Q4_1, rows, columns));
        let packed = [upload(&adding), upload(&weight)];
        let bias = random.floats(columns);
        let bias_buffer = buffer(&bias);
        let matrix = |i: usize| Matrix { weight: &packed[i], bias: (i == 0).then_some(bias_buffer) };
        // Groups of very different sizes.
        let mut norm_weights = random.floats(columns);
        norm_weights.iter_mut().skip(40).take(9).for_each(|weight| *weight *= 3e4);
        let scale = buffer(&norm_weights);

        let input = random.floats(first);
        let halves = to_halves(&single(gpu, first, false), &input, first, 0);
        let between = used(columns);
        let run = Run::new([first, columns, 1], &[], |operands| {
            let operands = Operands { input: Input::Single(halves), ..operands };
            let next_norm = NextNorm { weight: scale, rounded: Rounded::Halves(between) };
            let linear = single(gpu, first, false);
            let layer =
                Linear::with_next_norm(&mut kernels(), &linear, "test", matrix(0), operands, next_norm)?;
            Ok(layer.expect("whole groups"))
        });
        let products = multiply(&adding, Some(&bias), &input);
        let sums = products.iter().map(|sum| UNTOUCHED + sum).collect::<Vec<f32>>();
        let what = format!("a sum of {first} columns");
        assert_same(&what, &run.rows(1), &sums);
        let written = Written::read(between, columns);
        let products = times(&sums, &norm_weights);
        written.assert_groups(&what, &products);
        written.assert_squares(&what, &sums);

        let of = Norm { weight: scale, bias: None, epsilon: 1e-5, of_heads: false };
        let (_, outside) = normed(of, true, &sums, columns);
        let row_factor = outside.factor(0);
        let x = half_activations(&products).values;
        let truth: Vec<f32> = half_matrix(&weight)
            .iter()
            .map(|row| row_factor * row.factor * dot_halves(&row.values, &x))
            .collect();
        let run = Run::new([columns, outputs, 1], &[], |operands| {
            let input = Input::SingleNormed(between, 1e-5);
            let linear = single(gpu, columns, false);
            Linear::new(&mut kernels(), &linear, "test", matrix(1), Operands { input, ..operands })
        });
        assert_same(&format!("the norm of {columns} columns"), &run.rows(1), &truth);
    }
}

/// A gated layer of a single row writes its results as the next one reads them.
#[test]
fn gated_layers_write_groups() {
    let gpu = &setup().0;
    let mut random = Random(40);
    let shapes = if half_units(&gpu.info) { vec![(64, 96), (256, 4096)] } else { vec![(64, 96)] };
    for (outputs, columns) in shapes {
        let weights = [(); 2].map(|()| Weight::random(&mut random, Format::Q4_1, outputs, columns));
        let packed = [0, 1].map(|i: usize| upload(&weights[i]));
        let matrices = [0, 1].map(|i: usize| Matrix { weight: &packed[i], bias: None });
        let linear = single(gpu, columns, true);
        let halves = to_halves(&linear, &random.floats(columns), columns, 0);
        let next = used(outputs);
        let run = Run::new([columns, outputs, 1], &[], |operands| {
            let rounded = Some(Rounded::Halves(next));
            let operands = Operands { input: Input::Single(halves), rounded, ..operands };
            Linear::gated(&mut kernels(), &linear, "test", Activation::Silu, matrices, operands)
        });
        assert!(run.linear.requantizes(1) && !run.linear.requantizes(2));
        let results = run.rows(1);
        Written::read(next, outputs).assert_groups("gates", &results);
    }
}
