//! Q4_0 and Q4_1: 32 values of four bits.
//!
//! Q4_0: `d` f16, 16 bytes of nibbles; `value = d * (q - 8)`.
//! Q4_1: `d` f16, `m` f16, 16 bytes of nibbles; `value = d * q + m`.

use super::{field, half_at, nibbles};

/// integer = q - 8; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 18], integers: &mut [i8; 32], scales: &mut [f32; 1]) {
    *scales = [half_at(block, 0)];
    *integers = nibbles(field(block, 2)).map(|q| q as i8 - 8);
}

/// integer = q; scale = d; min = m.
#[inline(always)]
pub(crate) fn unpack_1(
    block: &[u8; 20],
    integers: &mut [i8; 32],
    scales: &mut [f32; 1],
    mins: &mut [f32; 1],
) {
    *scales = [half_at(block, 0)];
    *mins = [half_at(block, 2)];
    *integers = nibbles(field(block, 4)).map(|q| q as i8);
}
