//! What models with several residual streams add to the definition (AltUp): streams that are predicted of each other
//! and corrected by what became of one of them, activations of which only the largest are left, and rows as long as
//! another.

use super::{dot, sum};

/// Each stream and the sum of all of them times its coefficients, which lie together: for stream i and j from the first
/// on, `out[i] = fma(coefficients[i][j], input[j], out[i])`, beginning with `input[i]`.
pub fn mix_streams(coefficients: &[f32], input: &[f32], out: &mut [f32]) {
    let streams = coefficients.len().isqrt();
    let width = input.len() / streams;
    out.copy_from_slice(input);
    for (out, coefficients) in out.chunks_mut(width).zip(coefficients.chunks(streams)) {
        for (input, coefficient) in input.chunks(width).zip(coefficients) {
            out.iter_mut().zip(input).for_each(|(out, x)| *out = coefficient.mul_add(*x, *out));
        }
    }
}

/// Each stream, moved by how far the first one is from the truth, times one more than its coefficient:
/// `fma(1 + coefficient, truth - first, stream)`.
pub fn correct_streams(coefficients: &[f32], truth: &[f32], input: &[f32], out: &mut [f32]) {
    let width = truth.len();
    let first = &input[..width];
    for (stream, coefficient) in coefficients.iter().enumerate() {
        let factor = 1.0 + coefficient;
        let at = stream * width;
        for i in 0..width {
            out[at + i] = factor.mul_add(truth[i] - first[i], input[at + i]);
        }
    }
}

/// What lies above the mean of a row by more than `spread` times its standard deviation (of a sample: by one value less
/// than there are), and zero in the place of all else.
pub fn sparsify(x: &mut [f32], spread: f32) {
    let mean = sum(x) / x.len() as f32;
    x.iter_mut().for_each(|x| *x -= mean);
    let cut = spread * (dot(x, x) / (x.len() as f32 - 1.0)).sqrt();
    for x in x {
        let over = *x - cut;
        *x = if over < 0.0 { 0.0 } else { over };
    }
}

/// The length of a row: √Σx².
pub fn length(x: &[f32]) -> f32 {
    dot(x, x).sqrt()
}
