//! Several residual streams, rows that are blended, and what goes with them: a thread takes a row and computes all of it.

use gleed_model::program::{Activation, View, WeightId};

use super::Fixed;
use super::rows::for_each_row;
use crate::kernels::activate::Activate;
use crate::kernels::add::AddScaled;
use crate::kernels::streams::{Blend, CorrectStream, Dot, Sparsify};
use crate::machine::Machine;

/// Each stream and all of them times its coefficients.
pub(super) fn mix(machine: &mut Machine, coefficients: View, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let streams = coefficients.width.isqrt();
    for_each_row(pool, activations, rows.len(), streams * out.width, |_, row| {
        let ([coefficients, input], out) = row.read_write([coefficients, input], out);
        out.copy_from_slice(input);
        let width = input.len() / streams;
        for (out, coefficients) in out.chunks_exact_mut(width).zip(coefficients.chunks_exact(streams)) {
            for (y, factor) in input.chunks_exact(width).zip(coefficients) {
                kernels.run(AddScaled { x: out, y, factor: *factor });
            }
        }
    });
}

/// Each stream, moved by how far the first one is from the truth.
pub(super) fn correct(machine: &mut Machine, coefficients: View, truth: View, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 2 * out.width, |_, row| {
        let ([coefficients, truth, input], out) = row.read_write([coefficients, truth, input], out);
        let (width, first) = (truth.len(), &input[..truth.len()]);
        let streams = input.chunks_exact(width).zip(coefficients);
        for (out, (stream, coefficient)) in out.chunks_exact_mut(width).zip(streams) {
            kernels.run(CorrectStream { stream, truth, first, factor: 1.0 + coefficient, out });
        }
    });
}

/// x, moved towards y with each row of shares.
pub(super) fn blend(fixed: Fixed, machine: &mut Machine, shares: WeightId, inputs: [View; 2], out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let shares = fixed.weights.vector(shares);
    for_each_row(pool, activations, rows.len(), 2 * out.width, |_, row| {
        let ([x, y], out) = row.read_write(inputs, out);
        for (out, shares) in out.chunks_exact_mut(x.len()).zip(shares.chunks_exact(x.len())) {
            kernels.run(Blend { shares, x, y, out });
        }
    });
}

/// out = Σ x · y of each head.
pub(super) fn dot(machine: &mut Machine, heads: usize, inputs: [View; 2], out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), inputs[0].width, |_, row| {
        let ([x, y], out) = row.read_write(inputs, out);
        let width = x.len() / heads;
        for (out, (x, y)) in out.iter_mut().zip(x.chunks_exact(width).zip(y.chunks_exact(width))) {
            *out = kernels.run(Dot { x, y });
        }
    });
}

/// What lies above the mean by more than some standard deviations.
pub(super) fn sparsify(machine: &mut Machine, spread: f32, x: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 4 * x.width, |_, row| {
        kernels.run(Sparsify { x: row.write(x), spread });
    });
}

/// out = input · weight, column by column.
pub(super) fn scale_columns(fixed: Fixed, machine: &mut Machine, weight: WeightId, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let weight = fixed.weights.vector(weight);
    for_each_row(pool, activations, rows.len(), out.width, |_, row| {
        let ([input], out) = row.read_write([input], out);
        out.copy_from_slice(input);
        kernels.run(Activate { activation: Activation::Identity, x: out, up: Some(weight) });
    });
}
