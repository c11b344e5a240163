//! Q4_K: 256 values of four bits in 8 groups of 32, each with a 6-bit scale and a 6-bit min.
//!
//! `d` f16, `dmin` f16, 12 bytes of scales and mins, 128 bytes of nibbles: each run of 32 bytes holds one
//! group in its low nibbles and the next in its high ones; `value = (d * scale) * q - dmin * min`.

use super::superblock::{self, AffineBlock};
use super::{TooLarge, field, groups_of, half_at};

/// integer = q; factor = scale; scale = d; min factor = min; min = -dmin.
#[inline(always)]
pub(crate) fn unpack(
    block: &[u8; 144],
    integers: &mut [i8; 256],
    factors: &mut [i8; 8],
    min_factors: &mut [i8; 8],
) -> (f32, f32) {
    *integers = fours(field(block, 16)).map(|q| q as i8);
    unpack_scales(block, factors, min_factors)
}

/// The scales and mins at the front of a Q4_K or Q5_K block.
#[inline(always)]
pub(super) fn unpack_scales(block: &[u8], factors: &mut [i8; 8], min_factors: &mut [i8; 8]) -> (f32, f32) {
    let (scale_codes, min_codes) = codes(field(block, 4));
    *factors = scale_codes.map(|code| code as i8);
    *min_factors = min_codes.map(|code| code as i8);
    (half_at(block, 0), -half_at(block, 2))
}

/// The eight 6-bit scales and mins. Bytes 0..4 hold scales 0..4, bytes 4..8 mins 0..4; scale and min
/// `4 + i` have their low four bits in byte `8 + i` and their high two bits on top of those of `i`.
#[inline(always)]
fn codes(bytes: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for i in 0..4 {
        scales[i] = bytes[i] & 63;
        mins[i] = bytes[4 + i] & 63;
        scales[4 + i] = bytes[8 + i] & 15 | bytes[i] >> 6 << 4;
        mins[4 + i] = bytes[8 + i] >> 4 | bytes[4 + i] >> 6 << 4;
    }
    (scales, mins)
}

/// 256 four-bit values from 128 bytes.
#[inline(always)]
pub(super) fn fours(bytes: &[u8; 128]) -> [u8; 256] {
    let mut out = [0; 256];
    for (bytes, out) in bytes.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        let (low, high) = out.split_at_mut(32);
        for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
            *low = byte & 15;
            *high = byte >> 4;
        }
    }
    out
}

/// Searches each group for its scale and min: see [`super::superblock`].
pub(crate) fn encode(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 144],
) -> Result<(), TooLarge> {
    let encoded = superblock::affine::<8, 32>(groups_of(values), importance.map(groups_of), 15.0, 63.0)?;
    block[..16].copy_from_slice(&front(&encoded));
    block[16..].copy_from_slice(&join_fours(encoded.q.as_flattened()));
    Ok(())
}

/// The first 16 bytes of a Q4_K or Q5_K block: what [`unpack_scales`] reads.
pub(super) fn front(encoded: &AffineBlock<8, 32>) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&encoded.d);
    bytes[2..4].copy_from_slice(&encoded.dmin);
    let (scales, mins) = (&encoded.scales, &encoded.mins);
    for i in 0..4 {
        bytes[4 + i] = scales[i] | scales[4 + i] >> 4 << 6;
        bytes[8 + i] = mins[i] | mins[4 + i] >> 4 << 6;
        bytes[12 + i] = scales[4 + i] & 15 | mins[4 + i] << 4;
    }
    bytes
}

/// Joins the low four bits of 256 values as [`fours`] splits them.
pub(super) fn join_fours(q: &[u8]) -> [u8; 128] {
    let mut bytes = [0; 128];
    for (bytes, q) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(q.as_chunks::<64>().0) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = q[i] & 15 | q[32 + i] << 4;
        }
    }
    bytes
}
