//! Q8_0 and Q8_K: values of eight bits.
//!
//! Q8_0: `d` f16, 32 signed bytes. Q8_K: `d` f32, 256 signed bytes, 16 sums of 16 of them (i16), which
//! only dot products use. Both: `value = d * q`.

use super::{field, half_at};

/// integer = q; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 34], integers: &mut [i8; 32], scales: &mut [f32; 1]) {
    *scales = [half_at(block, 0)];
    *integers = field::<32>(block, 2).map(|q| q as i8);
}

/// integer = q; scale = d for all eight groups of 32.
#[inline(always)]
pub(crate) fn unpack_k(block: &[u8; 292], integers: &mut [i8; 256], scales: &mut [f32; 8]) {
    *scales = [f32::from_le_bytes(*field(block, 0)); 8];
    *integers = field::<256>(block, 4).map(|q| q as i8);
}
