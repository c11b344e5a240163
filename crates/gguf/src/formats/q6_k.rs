//! Q6_K: 256 values of six bits in 16 groups of 16, each with a signed 8-bit scale.
//!
//! 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 scales (i8), `d` f16;
//! `value = (d * scale) * (q - 32)`. Each half of the block (128 values) has 64 bytes of nibbles, the
//! first 64 values in the low ones, and 32 bytes of bit pairs, four runs of 32 values lowest first.

use super::q2_k::{join_twos, twos};
use super::{TooLarge, field, groups_of, half_at, superblock};

/// integer = q - 32; factor = scale; scale = d.
#[inline(always)]
pub(crate) fn unpack(block: &[u8; 210], integers: &mut [i8; 256], factors: &mut [i8; 16]) -> f32 {
    *factors = field::<16>(block, 192).map(|scale| scale as i8);
    let low: &[u8; 128] = field(block, 0);
    let high = twos(field(block, 128));
    let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<128>().0);
    for ((low, high), integers) in halves.zip(integers.as_chunks_mut::<128>().0) {
        for i in 0..64 {
            integers[i] = (low[i] & 15 | high[i] << 4) as i8 - 32;
            integers[64 + i] = (low[i] >> 4 | high[64 + i] << 4) as i8 - 32;
        }
    }
    half_at(block, 208)
}

/// Searches each group for its scale: see [`super::superblock`].
pub(crate) fn encode(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 210],
) -> Result<(), TooLarge> {
    let encoded = superblock::symmetric::<16, 16>(groups_of(values), importance.map(groups_of), 32.0, 128.0)?;
    let mut high = [0; 256];
    for (high, q) in high.iter_mut().zip(encoded.q.as_flattened()) {
        *high = q >> 4;
    }
    let halves = block.as_chunks_mut::<64>().0.iter_mut().zip(encoded.q.as_flattened().as_chunks::<128>().0);
    for (low, q) in halves {
        for (i, byte) in low.iter_mut().enumerate() {
            *byte = q[i] & 15 | q[64 + i] << 4;
        }
    }
    block[128..192].copy_from_slice(&join_twos(&high));
    block[192..208].copy_from_slice(&encoded.scales.map(|scale| scale as u8));
    block[208..].copy_from_slice(&encoded.d);
    Ok(())
}
