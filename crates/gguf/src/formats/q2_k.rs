//! Q2_K: 256 values of two bits in 16 groups of 16, each with a 4-bit scale and a 4-bit min.
//!
//! 16 bytes of scale (low nibble) and min (high nibble), 64 bytes of 2-bit values, `d` f16, `dmin` f16;
//! `value = (d * scale) * q - dmin * min`.

use super::{TooLarge, field, groups_of, half_at, superblock};

/// integer = q; factor = scale; scale = d; min factor = min; min = -dmin.
#[inline(always)]
pub(crate) fn unpack(
    block: &[u8; 84],
    integers: &mut [i8; 256],
    factors: &mut [i8; 16],
    min_factors: &mut [i8; 16],
) -> (f32, f32) {
    let codes: &[u8; 16] = field(block, 0);
    *factors = codes.map(|code| (code & 15) as i8);
    *min_factors = codes.map(|code| (code >> 4) as i8);
    *integers = twos(field(block, 16)).map(|q| q as i8);
    (half_at(block, 80), -half_at(block, 82))
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

/// Searches each group for its scale and min: see [`super::superblock`].
pub(crate) fn encode(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 84],
) -> Result<(), TooLarge> {
    let encoded = superblock::affine::<16, 16>(groups_of(values), importance.map(groups_of), 3.0, 15.0)?;
    for (g, byte) in block[..16].iter_mut().enumerate() {
        *byte = encoded.scales[g] | encoded.mins[g] << 4;
    }
    block[16..80].copy_from_slice(&join_twos(encoded.q.as_flattened()));
    block[80..82].copy_from_slice(&encoded.d);
    block[82..].copy_from_slice(&encoded.dmin);
    Ok(())
}

/// Joins the low two bits of 256 values as [`twos`] splits them.
pub(super) fn join_twos(q: &[u8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, q) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(q.as_chunks::<128>().0) {
        for (run, q) in q.as_chunks::<32>().0.iter().enumerate() {
            for (byte, q) in bytes.iter_mut().zip(q) {
                *byte |= (q & 3) << (2 * run);
            }
        }
    }
    bytes
}
