//! Q2_K: 256 values of two bits in 16 groups of 16, each with a 4-bit scale and a 4-bit min.
//!
//! 16 bytes of scale (low nibble) and min (high nibble), 64 bytes of 2-bit values, `d` f16, `dmin` f16;
//! `value = (d * scale) * q - dmin * min`.

use super::{field, half_at};

/// integer = q; scale = d * scale; min = -(dmin * min).
#[inline(always)]
pub(crate) fn unpack(
    block: &[u8; 84],
    integers: &mut [i8; 256],
    scales: &mut [f32; 16],
    mins: &mut [f32; 16],
) {
    let codes: &[u8; 16] = field(block, 0);
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    *scales = codes.map(|code| d * f32::from(code & 15));
    *mins = codes.map(|code| -(dmin * f32::from(code >> 4)));
    *integers = twos(field(block, 16)).map(|q| q as i8);
}

/// 256 two-bit values from 64 bytes: each run of 32 bytes holds four runs of 32 values, lowest bits
/// first. Q3_K and TQ2_0 store theirs the same way.
#[inline(always)]
pub(super) fn twos(bytes: &[u8; 64]) -> [u8; 256] {
    let mut out = [0; 256];
    for (bytes, out) in bytes.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<128>().0) {
        for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            *out = bytes.map(|byte| byte >> (2 * run) & 3);
        }
    }
    out
}
