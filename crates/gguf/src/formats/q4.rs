//! Q4_0 and Q4_1: 32 values of four bits.
//!
//! Q4_0: `d` f16, 16 bytes of nibbles; `value = d * (q - 8)`.
//! Q4_1: `d` f16, `m` f16, 16 bytes of nibbles; `value = d * q + m`.

use super::search::{self, largest, quantise, range, reciprocal};
use super::{TooLarge, field, half, half_at, join_nibbles, nibbles};

/// integer = q - 8; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 18], integers: &mut [i8; 32]) -> f32 {
    *integers = nibbles(field(block, 2)).map(|q| q as i8 - 8);
    half_at(block, 0)
}

/// integer = q; scale = d; min = m.
#[inline(always)]
pub(crate) fn unpack_1(block: &[u8; 20], integers: &mut [i8; 32]) -> (f32, f32) {
    *integers = nibbles(field(block, 4)).map(|q| q as i8);
    (half_at(block, 0), half_at(block, 2))
}

/// The value of largest magnitude becomes -8; the others are rounded. With importance a search finds the scale.
pub(crate) fn encode_0(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 18],
) -> Result<(), TooLarge> {
    let (d, q) = symmetric(values, importance, 8.0)?;
    block[..2].copy_from_slice(&d);
    block[2..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}

/// The smallest value becomes 0, the largest 15; the others are rounded. With importance a search finds scale and min.
pub(crate) fn encode_1(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 20],
) -> Result<(), TooLarge> {
    let AffineBlock { d, min, q } = affine(values, importance, 15.0)?;
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&min);
    block[4..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}

/// The stored scale of Q4_0 or Q5_0, and q in `0..2 * top`, for `value ≈ d * (q - top)`.
pub(super) fn symmetric(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    top: f32,
) -> Result<([u8; 2], [u8; 32]), TooLarge> {
    let Some(importance) = importance else {
        let d = largest(values) / -top;
        let inverse = reciprocal(d);
        let q = values.map(|value| ((value * inverse + (top + 0.5)) as u8).min(2 * top as u8 - 1));
        return Ok((half(d)?.0, q));
    };
    let weights = search::weights(values, Some(importance));
    let (bytes, d) = half(search::symmetric(values, &weights, top, true))?;
    let inverse = reciprocal(d);
    Ok((bytes, values.map(|value| (quantise(value * inverse, -top, top - 1.0) + top) as u8)))
}

/// What is stored of a block of Q4_1 or Q5_1: `value ≈ d * q + min`.
pub(super) struct AffineBlock {
    pub(super) d: [u8; 2],
    pub(super) min: [u8; 2],
    pub(super) q: [u8; 32],
}

/// Encodes a block of Q4_1 or Q5_1 with q in `0..=top`.
pub(super) fn affine(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    top: f32,
) -> Result<AffineBlock, TooLarge> {
    let Some(importance) = importance else {
        let (low, high) = range(values);
        let d = (high - low) / top;
        let inverse = reciprocal(d);
        let q = values.map(|value| (((value - low) * inverse + 0.5) as u8).min(top as u8));
        return Ok(AffineBlock { d: half(d)?.0, min: half(low)?.0, q });
    };
    let weights = search::weights(values, Some(importance));
    let found = search::affine(values, &weights, top, f32::INFINITY);
    let ((d_bytes, d), (min_bytes, min)) = (half(found.scale)?, half(found.min)?);
    let inverse = reciprocal(d);
    let q = values.map(|value| quantise((value - min) * inverse, 0.0, top) as u8);
    Ok(AffineBlock { d: d_bytes, min: min_bytes, q })
}
