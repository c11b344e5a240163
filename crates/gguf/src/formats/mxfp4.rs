//! MXFP4: 32 values of four bits (sign, two exponent bits, one mantissa bit) with a shared power of two.
//!
//! One byte of exponent `e`, 16 bytes of nibbles; `value = 2^(e - 127) * LEVELS[q] / 2`, where the levels
//! are the doubled values of the four-bit floats, so that they are integers.

use super::iq4::levels;
use super::search::largest;
use super::{TooLarge, field, join_nibbles};

/// The doubled values of the sixteen four-bit floats.
pub(super) const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The same in ascending order; zero is there twice.
pub(crate) const ASCENDING: [i8; 16] = [-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12];

/// integer = LEVELS[q]; scale = 2^(e - 128).
#[inline(always)]
pub(crate) fn unpack(block: &[u8; 17], integers: &mut [i8; 32]) -> f32 {
    *integers = levels(field(block, 1), &LEVELS);
    half_scale(block[0])
}

/// 2^(e - 128): half the scale that the exponent byte names, exact down to the smallest byte.
#[inline(always)]
pub(super) fn half_scale(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits(u32::from(e - 1) << 23),
    }
}

/// The exponent comes from the value of largest magnitude; each value takes its nearest level, the
/// smaller of two as near.
pub(crate) fn encode(values: &[f32; 32], block: &mut [u8; 17]) -> Result<(), TooLarge> {
    // Values from 4 to 8 units take a unit of one: floor(log2(largest)) - 2, read off the float's bits.
    let exponent = largest(values).abs().to_bits() >> 23;
    let e = exponent.saturating_sub(2) as u8;
    let unit = half_scale(e);
    let q = values.map(|value| {
        let magnitude = value.abs();
        let mut best = (magnitude, 0);
        for (q, level) in LEVELS[..8].iter().enumerate().skip(1) {
            let error = (unit * f32::from(*level) - magnitude).abs();
            if error < best.0 {
                best = (error, q as u8);
            }
        }
        if value < 0.0 && best.1 > 0 { best.1 | 8 } else { best.1 }
    });
    block[0] = e;
    block[1..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}
