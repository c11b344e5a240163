//! Encoding a block of groups whose scales are themselves quantised: Q2_K to Q6_K. Each group's best
//! scale (and min) is searched for alone, then written as a small code times the block's `d` (and
//! `dmin`), then the codes are tried against their neighbours with the numbers that will be read back.

use half::f16;

use super::search::{self, Affine, magnitude_weights, quantise, reciprocal, square_error};
use super::{TooLarge, half};

/// A block of `value = (d * scale) * q - (dmin * min)`.
pub(super) struct AffineBlock<const GROUPS: usize, const N: usize> {
    pub(super) d: [u8; 2],
    pub(super) dmin: [u8; 2],
    pub(super) scales: [u8; GROUPS],
    pub(super) mins: [u8; GROUPS],
    pub(super) q: [[u8; N]; GROUPS],
}

/// Encodes groups of values as q in `0..=top` with scales and mins in `0..=code_top`.
pub(super) fn affine<const GROUPS: usize, const N: usize>(
    values: &[[f32; N]; GROUPS],
    top: f32,
    code_top: f32,
) -> Result<AffineBlock<GROUPS, N>, TooLarge> {
    let weights = values.each_ref().map(magnitude_weights);
    let mut groups = [Affine::default(); GROUPS];
    for ((group, values), weights) in groups.iter_mut().zip(values).zip(&weights) {
        *group = search::affine(values, weights, top);
    }
    let (d_bytes, d) = unit(groups.iter().fold(0.0, |most: f32, group| most.max(group.scale)), code_top)?;
    let (dmin_bytes, dmin) =
        unit(groups.iter().fold(0.0, |most: f32, group| most.max(-group.min)), code_top)?;
    let mut block = AffineBlock {
        d: d_bytes,
        dmin: dmin_bytes,
        scales: [0; GROUPS],
        mins: [0; GROUPS],
        q: [[0; N]; GROUPS],
    };
    for g in 0..GROUPS {
        let scale_code = code(groups[g].scale, d, 0.0, code_top);
        let min_code = code(-groups[g].min, dmin, 0.0, code_top);
        let mut best = (f32::INFINITY, scale_code, min_code);
        for scale_step in [0.0, -1.0, 1.0] {
            for min_step in [0.0, -1.0, 1.0] {
                let scale_code = (scale_code + scale_step).clamp(0.0, code_top);
                let min_code = (min_code + min_step).clamp(0.0, code_top);
                let (scale, min) = (d * scale_code, -(dmin * min_code));
                let inverse = reciprocal(scale);
                let error = square_error(&values[g], &weights[g], |value| {
                    scale * quantise(inverse * (value - min), 0.0, top) + min
                });
                if error < best.0 {
                    best = (error, scale_code, min_code);
                }
            }
        }
        let (_, scale_code, min_code) = best;
        let (inverse, min) = (reciprocal(d * scale_code), -(dmin * min_code));
        block.scales[g] = scale_code as u8;
        block.mins[g] = min_code as u8;
        block.q[g] = values[g].map(|value| quantise(inverse * (value - min), 0.0, top) as u8);
    }
    Ok(block)
}

/// A block of `value = (d * scale) * q`, q stored with `top` added.
pub(super) struct SymmetricBlock<const GROUPS: usize, const N: usize> {
    pub(super) d: [u8; 2],
    pub(super) scales: [i8; GROUPS],
    pub(super) q: [[u8; N]; GROUPS],
}

/// Encodes groups of values as q in `-top..top` with scales in `-code_top..code_top`.
pub(super) fn symmetric<const GROUPS: usize, const N: usize>(
    values: &[[f32; N]; GROUPS],
    top: f32,
    code_top: f32,
) -> Result<SymmetricBlock<GROUPS, N>, TooLarge> {
    let weights = values.each_ref().map(magnitude_weights);
    let mut scales = [0.0; GROUPS];
    for ((scale, values), weights) in scales.iter_mut().zip(values).zip(&weights) {
        *scale = search::symmetric(values, weights, top);
    }
    let (d_bytes, d) = unit(search::largest(&scales), -code_top)?;
    let mut block = SymmetricBlock { d: d_bytes, scales: [0; GROUPS], q: [[0; N]; GROUPS] };
    for g in 0..GROUPS {
        let middle = code(scales[g], d, -code_top, code_top - 1.0);
        let mut best = (f32::INFINITY, middle);
        for step in [0.0, -1.0, 1.0] {
            let code = (middle + step).clamp(-code_top, code_top - 1.0);
            let scale = d * code;
            let inverse = reciprocal(scale);
            let error = square_error(&values[g], &weights[g], |value| {
                scale * quantise(inverse * value, -top, top - 1.0)
            });
            if error < best.0 {
                best = (error, code);
            }
        }
        let inverse = reciprocal(d * best.1);
        block.scales[g] = best.1 as i8;
        block.q[g] = values[g].map(|value| (quantise(inverse * value, -top, top - 1.0) + top) as u8);
    }
    Ok(block)
}

/// The half-precision unit in which `number` has the code `code`, as it is stored and as it is read. Very
/// small units are far apart: where the nearest is so small that the code would not reach the number,
/// the next larger one.
fn unit(number: f32, code: f32) -> Result<([u8; 2], f32), TooLarge> {
    let exact = number / code;
    let (bytes, nearest) = half(exact)?;
    if exact.abs() <= nearest.abs() * (1.0 + 0.5 / code.abs()) {
        return Ok((bytes, nearest));
    }
    let next = f16::from_bits(f16::from_f32(exact).to_bits() + 1);
    Ok((next.to_le_bytes(), next.to_f32()))
}

/// The code that comes nearest to `number = unit * code`.
fn code(number: f32, unit: f32, low: f32, high: f32) -> f32 {
    quantise(number * reciprocal(unit), low, high)
}
