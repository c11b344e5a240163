//! MXFP4: 32 values of four bits (sign, two exponent bits, one mantissa bit) with a shared power of two.
//!
//! One byte of exponent `e`, 16 bytes of nibbles; `value = 2^(e - 127) * LEVELS[q] / 2`, where the levels
//! are the doubled values of the four-bit floats, so that they are integers.

use super::field;
use super::iq4::levels;

/// The doubled values of the sixteen four-bit floats.
pub(super) const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// integer = LEVELS[q]; scale = 2^(e - 128).
#[inline(always)]
pub(crate) fn unpack(block: &[u8; 17], integers: &mut [i8; 32], scales: &mut [f32; 1]) {
    *scales = [half_scale(block[0])];
    *integers = levels(field(block, 1), &LEVELS);
}

/// 2^(e - 128): half the scale that the exponent byte names, exact down to the smallest byte.
#[inline(always)]
pub(super) fn half_scale(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits(u32::from(e - 1) << 23),
    }
}
