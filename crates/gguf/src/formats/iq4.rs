//! IQ4_NL and IQ4_XS: four-bit places in a fixed list of sixteen unevenly spaced integers.
//!
//! IQ4_NL: 32 values, `d` f16, 16 bytes of nibbles; `value = d * LEVELS[q]`. IQ4_XS: 256 values in 8
//! groups of 32, `d` f16, 8 times two high bits of scale (u16), 8 low nibbles of scale, 128 bytes of
//! nibbles; `value = (d * (scale - 32)) * LEVELS[q]`.

use super::{field, half_at, nibbles};

/// What the sixteen places stand for.
pub(super) const LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// integer = LEVELS[q]; scale = d.
#[inline(always)]
pub(crate) fn unpack_nl(block: &[u8; 18], integers: &mut [i8; 32], scales: &mut [f32; 1]) {
    *scales = [half_at(block, 0)];
    *integers = levels(field(block, 2), &LEVELS);
}

/// integer = LEVELS[q]; scale = d * (scale - 32).
#[inline(always)]
pub(crate) fn unpack_xs(block: &[u8; 136], integers: &mut [i8; 256], scales: &mut [f32; 8]) {
    let d = half_at(block, 0);
    let high = u16::from_le_bytes(*field(block, 2));
    let low: &[u8; 4] = field(block, 4);
    for (i, scale) in scales.iter_mut().enumerate() {
        let code = low[i / 2] >> (4 * (i % 2)) & 15 | ((high >> (2 * i) & 3) << 4) as u8;
        *scale = d * f32::from(code as i8 - 32);
    }
    let groups = field::<128>(block, 8).as_chunks::<16>().0;
    for (bytes, integers) in groups.iter().zip(integers.as_chunks_mut::<32>().0) {
        *integers = levels(bytes, &LEVELS);
    }
}

/// The levels of 32 nibbles.
#[inline(always)]
pub(super) fn levels(bytes: &[u8; 16], levels: &[i8; 16]) -> [i8; 32] {
    nibbles(bytes).map(|q| levels[usize::from(q & 15)])
}
