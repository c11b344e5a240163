//! Q5_K: 256 values of five bits in 8 groups of 32, each with a 6-bit scale and a 6-bit min.
//!
//! The front and the nibbles are those of Q4_K; between them 32 bytes of fifth bits, bit `g` of byte `i`
//! for value `i` of group `g`; `value = (d * scale) * q - dmin * min`.

use super::q4_k::{fours, front, join_fours, unpack_scales};
use super::{TooLarge, field, groups_of, superblock};

/// integer = q; factor = scale; scale = d; min factor = min; min = -dmin.
#[inline(always)]
pub(crate) fn unpack(
    block: &[u8; 176],
    integers: &mut [i8; 256],
    factors: &mut [i8; 8],
    min_factors: &mut [i8; 8],
) -> (f32, f32) {
    let high: &[u8; 32] = field(block, 16);
    let low = fours(field(block, 48));
    let groups = low.as_chunks::<32>().0.iter().zip(integers.as_chunks_mut::<32>().0);
    for (group, (low, integers)) in groups.enumerate() {
        for ((low, high), integer) in low.iter().zip(high).zip(integers) {
            *integer = (low | (high >> group & 1) << 4) as i8;
        }
    }
    unpack_scales(block, factors, min_factors)
}

/// Searches each group for its scale and min: see [`super::superblock`].
pub(crate) fn encode(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 176],
) -> Result<(), TooLarge> {
    let encoded = superblock::affine::<8, 32>(groups_of(values), importance.map(groups_of), 31.0, 63.0)?;
    let (bytes, low) = block.split_at_mut(48);
    bytes[..16].copy_from_slice(&front(&encoded));
    let high = &mut bytes[16..];
    high.fill(0);
    for (group, q) in encoded.q.iter().enumerate() {
        for (byte, q) in high.iter_mut().zip(q) {
            *byte |= (q >> 4) << group;
        }
    }
    low.copy_from_slice(&join_fours(encoded.q.as_flattened()));
    Ok(())
}
