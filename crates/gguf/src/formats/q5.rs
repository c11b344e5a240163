//! Q5_0 and Q5_1: 32 values of five bits, the fifth bits apart.
//!
//! Q5_0: `d` f16, 32 fifth bits, 16 bytes of nibbles; `value = d * (q - 16)`.
//! Q5_1: `d` f16, `m` f16, 32 fifth bits, 16 bytes of nibbles; `value = d * q + m`.

use super::{field, half_at, nibbles};

/// integer = q - 16; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 22], integers: &mut [i8; 32], scales: &mut [f32; 1]) {
    *scales = [half_at(block, 0)];
    *integers = fives(field(block, 2), field(block, 6)).map(|q| q as i8 - 16);
}

/// integer = q; scale = d; min = m.
#[inline(always)]
pub(crate) fn unpack_1(
    block: &[u8; 24],
    integers: &mut [i8; 32],
    scales: &mut [f32; 1],
    mins: &mut [f32; 1],
) {
    *scales = [half_at(block, 0)];
    *mins = [half_at(block, 2)];
    *integers = fives(field(block, 4), field(block, 8)).map(|q| q as i8);
}

/// Joins the fifth bits (bit `i` belongs to value `i`) with the nibbles.
#[inline(always)]
fn fives(high: &[u8; 4], low: &[u8; 16]) -> [u8; 32] {
    let high = u32::from_le_bytes(*high);
    let mut out = nibbles(low);
    for (i, q) in out.iter_mut().enumerate() {
        *q |= ((high >> i & 1) << 4) as u8;
    }
    out
}
