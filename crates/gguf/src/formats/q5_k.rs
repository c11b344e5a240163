//! Q5_K: 256 values of five bits in 8 groups of 32, each with a 6-bit scale and a 6-bit min.
//!
//! The front and the nibbles are those of Q4_K; between them 32 bytes of fifth bits, bit `g` of byte `i`
//! for value `i` of group `g`; `value = (d * scale) * q - dmin * min`.

use super::field;
use super::q4_k::{fours, unpack_scales};

/// integer = q; scale = d * scale; min = -(dmin * min).
#[inline(always)]
pub(crate) fn unpack(
    block: &[u8; 176],
    integers: &mut [i8; 256],
    scales: &mut [f32; 8],
    mins: &mut [f32; 8],
) {
    unpack_scales(block, scales, mins);
    let high: &[u8; 32] = field(block, 16);
    let low = fours(field(block, 48));
    let groups = low.as_chunks::<32>().0.iter().zip(integers.as_chunks_mut::<32>().0);
    for (group, (low, integers)) in groups.enumerate() {
        for ((low, high), integer) in low.iter().zip(high).zip(integers) {
            *integer = (low | (high >> group & 1) << 4) as i8;
        }
    }
}
