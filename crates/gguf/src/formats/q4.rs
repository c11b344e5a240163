//! Q4_0 and Q4_1: 32 values of four bits.
//!
//! Q4_0: `d` f16, 16 bytes of nibbles; `value = d * (q - 8)`.
//! Q4_1: `d` f16, `m` f16, 16 bytes of nibbles; `value = d * q + m`.

use super::search::{largest, range, reciprocal};
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

/// The value of largest magnitude becomes -8; the others are rounded.
pub(crate) fn encode_0(values: &[f32; 32], block: &mut [u8; 18]) -> Result<(), TooLarge> {
    let d = largest(values) / -8.0;
    let inverse = reciprocal(d);
    let q = values.map(|value| ((value * inverse + 8.5) as u8).min(15));
    block[..2].copy_from_slice(&half(d)?.0);
    block[2..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}

/// The smallest value becomes 0, the largest 15; the others are rounded.
pub(crate) fn encode_1(values: &[f32; 32], block: &mut [u8; 20]) -> Result<(), TooLarge> {
    let (low, high) = range(values);
    let d = (high - low) / 15.0;
    let inverse = reciprocal(d);
    let q = values.map(|value| (((value - low) * inverse + 0.5) as u8).min(15));
    block[..2].copy_from_slice(&half(d)?.0);
    block[2..4].copy_from_slice(&half(low)?.0);
    block[4..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}
