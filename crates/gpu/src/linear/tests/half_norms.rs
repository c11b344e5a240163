//! RMS norms between layers in halves: what they write, and layers of a single row that do their work.

use gleed_gguf::Format;
use gleed_model::arithmetic::{HalfRow, half_factor_of_norm, half_row, rms_norm};
use half::f16;

use super::emulation::emulating;
use super::halves::{multiply, upload};
use super::support::{Random, Run, UNTOUCHED, Weight, assert_same, buffer, read, setup};
use crate::Gpu;
use crate::kernels::norm::{Also, Norm, norm};
use crate::kernels::{Kernels, Place};
use crate::linear::{HalfRows, Input, Linear, LinearKernels, Matrix, Operands, RowNorm, Tiling, half_units};

/// What a norm writes as floats and as halves.
fn normed(gpu: &Gpu, of: Norm, input: &[f32], width: usize) -> (Vec<f32>, Vec<f32>, usize) {
    let rows = input.len() / width;
    let storage = |values: &[f32]| buffer(gpu, values, wgpu::BufferUsages::STORAGE);
    let stride = width.next_multiple_of(4);
    let mut spread = vec![0.0; rows * stride];
    for (row, values) in input.chunks(width).enumerate() {
        spread[row * stride..][..width].copy_from_slice(values);
    }
    let (input, out) = (storage(&spread), storage(&vec![0.0; rows * stride]));
    let halves = HalfRows::new(gpu, rows, width).unwrap();
    let place = |buffer| Place { buffer, offset: 0, stride, width };
    let mut kernels = Kernels::new(gpu.clone(), 0);
    let also = Also::Halves(&halves);
    let dispatch = norm(&mut kernels, of, 1, place(&input), None, place(&out), also).unwrap();
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(dispatch.pipeline.get().unwrap());
        pass.set_bind_group(0, &dispatch.bindings, &[]);
        pass.dispatch_workgroups(1, rows as u32, 1);
    }
    let floats = read(gpu, encoder, &out);
    let encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    (floats, read(gpu, encoder, halves.buffer()), 4 * halves.factors())
}

/// What a norm writes as halves are the halves of what it writes as floats, and those are the norm: by groups where whole
/// groups are normed by their squares, with a factor that the weights settle, and else with that of the row.
#[test]
fn norms_write_the_halves_of_their_floats() {
    let gpu = &setup().0;
    let mut random = Random(37);
    let shapes =
        [(1, false), (100, false), (1184, true), (2052, false), (32, false), (1056, false), (4096, false)];
    for (width, is_layer_norm) in shapes {
        let rows = 3;
        let mut values = random.floats(rows * width);
        values[0] = 50.0;
        let storage = |values: &[f32]| buffer(gpu, values, wgpu::BufferUsages::STORAGE);
        let stride = width.next_multiple_of(4);
        let [weights, biases] = [(); 2].map(|()| random.floats(stride));
        let (weight, bias) = (storage(&weights), storage(&biases));
        let half_factor = half_factor_of_norm(&weights[..width]);
        let bias = is_layer_norm.then_some(&bias);
        let of = Norm { weight: &weight, bias, epsilon: 1e-5, of_heads: false, half_factor };
        let by_groups = of.by_groups(width, 16 << 10);
        assert_eq!(by_groups, width % 32 == 0 && !is_layer_norm);
        let (floats, words, factors) = normed(gpu, of, &values, width);
        let groups = width.div_ceil(128) * 4;
        for row in 0..rows {
            let floats = &floats[row * stride..][..width];
            let HalfRow { values: halves, factor } = match half_factor {
                Some(factor) if by_groups => {
                    HalfRow { values: floats.iter().map(|x| f16::from_f32(x / factor)).collect(), factor }
                }
                _ => half_row(floats),
            };
            assert_eq!(words[factors + row], factor, "{width}: the factor of row {row}");
            for column in 0..groups * 32 {
                let bits = words[row * groups * 16 + column / 2].to_bits() >> (column % 2 * 16);
                let expected = halves.get(column).map_or(0, |half| half.to_bits());
                assert_eq!(bits as u16, expected, "{width}: row {row}, column {column}");
            }
            if !is_layer_norm {
                let mut truth = vec![0.0; width];
                rms_norm(&values[row * width..][..width], &weights[..width], 1e-5, &mut truth);
                for (x, truth) in floats.iter().zip(truth) {
                    assert!((x - truth).abs() <= 2e-6 * truth.abs(), "{width}: {x}, not {truth}");
                }
            }
        }
    }
}

/// A layer of a single row that takes the norm of its input itself, after one that added to it, have the bits of a layer, a
/// sum, a norm and a layer.
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
        let packed = [upload(gpu, &adding), upload(gpu, &weight)];
        let biases = [random.floats(columns), random.floats(outputs)];
        let bias_buffers = [0, 1].map(|i: usize| buffer(gpu, &biases[i], wgpu::BufferUsages::STORAGE));
        let matrix = |i: usize| Matrix { weight: &packed[i], bias: Some(&bias_buffers[i]) };
        let kernels = |columns: usize| match real {
            true => LinearKernels::new(gpu, &[], &[]).unwrap(),
            false => {
                let split = columns.div_ceil(512) as u32;
                emulating(gpu, Tiling::Halves { rows: 1, split, across: 1 })
            }
        };
        let input = random.floats(first);
        let squares = HalfRows::new(gpu, 1, columns).unwrap();
        let run = Run::new(gpu, [first, columns, 1], &input, |operands| {
            let Input::Floats(view) = operands.input else { unreachable!("a run has floats") };
            let operands = Operands { input: Input::Single(view), ..operands };
            let layer = Linear::adding(gpu, &kernels(first), "test", matrix(0), operands, squares.squares());
            Ok(layer?.expect("whole groups"))
        });
        let products = multiply(&adding, Some(&biases[0]), &input);
        let sums = products.iter().map(|sum| UNTOUCHED + sum).collect::<Vec<f32>>();
        assert_same(&format!("a sum of {first} columns"), &run.rows(1), &sums);

        let norm_weights = random.floats(columns);
        let scale = buffer(gpu, &norm_weights, wgpu::BufferUsages::STORAGE);
        let half_factor = half_factor_of_norm(&norm_weights);
        let of = Norm { weight: &scale, bias: None, epsilon: 1e-5, of_heads: false, half_factor };
        let (floats, ..) = normed(gpu, of, &sums, columns);
        let truth = multiply(&weight, Some(&biases[1]), &floats);
        let norm = RowNorm {
            weight: &scale,
            squares: squares.squares(),
            epsilon: 1e-5,
            half_factor: half_factor.unwrap(),
        };
        let run = Run::new(gpu, [columns, outputs, 1], &sums, |operands| {
            let Input::Floats(view) = operands.input else { unreachable!("a run has floats") };
            let input = Input::SingleNormed(view, norm);
            Linear::new(gpu, &kernels(columns), "test", matrix(1), Operands { input, ..operands })
        });
        assert_same(&format!("the norm of {columns} columns"), &run.rows(1), &truth);
    }
}
