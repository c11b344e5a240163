//! Q3_K: 256 values of three bits in 16 groups of 16, each with a signed 6-bit scale.
//!
//! 32 bytes of third bits (clear: subtract four), 64 bytes of 2-bit values as in Q2_K, 12 bytes of
//! scales, `d` f16; `value = (d * (scale - 32)) * q` with q from -4 to 3.

use super::q2_k::{join_twos, twos};
use super::{TooLarge, field, groups_of, half_at, superblock};

/// integer = q - 4; factor = scale - 32; scale = d.
#[inline(always)]
pub(crate) fn unpack(block: &[u8; 110], integers: &mut [i8; 256], factors: &mut [i8; 16]) -> f32 {
    *factors = scale_codes(field(block, 96)).map(|code| code as i8 - 32);
    let high: &[u8; 32] = field(block, 0);
    let low = twos(field(block, 32));
    let runs = low.as_chunks::<32>().0.iter().zip(integers.as_chunks_mut::<32>().0);
    for (run, (low, integers)) in runs.enumerate() {
        for ((low, high), integer) in low.iter().zip(high).zip(integers) {
            *integer = (low | (high >> run & 1) << 2) as i8 - 4;
        }
    }
    half_at(block, 108)
}

/// The sixteen 6-bit scales: bytes 0..8 hold the low four bits of scales 0..8 (low nibbles) and 8..16
/// (high nibbles), byte `8 + i` the high two bits of scales `i`, `i + 4`, `i + 8` and `i + 12`.
#[inline(always)]
fn scale_codes(bytes: &[u8; 12]) -> [u8; 16] {
    let mut codes = [0; 16];
    for (i, code) in codes.iter_mut().enumerate() {
        let low = bytes[i % 8] >> (4 * (i / 8)) & 15;
        let high = bytes[8 + i % 4] >> (2 * (i / 4)) & 3;
        *code = low | high << 4;
    }
    codes
}

/// Searches each group for its scale: see [`super::superblock`].
pub(crate) fn encode(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 110],
) -> Result<(), TooLarge> {
    let encoded = superblock::symmetric::<16, 16>(groups_of(values), importance.map(groups_of), 4.0, 32.0)?;
    let q = encoded.q.as_flattened();
    let (high, rest) = block.split_at_mut(32);
    high.fill(0);
    for (run, q) in q.as_chunks::<32>().0.iter().enumerate() {
        for (byte, q) in high.iter_mut().zip(q) {
            *byte |= (q >> 2) << run;
        }
    }
    rest[..64].copy_from_slice(&join_twos(q));
    rest[64..76].copy_from_slice(&join_scale_codes(&encoded.scales.map(|scale| (scale + 32) as u8)));
    rest[76..].copy_from_slice(&encoded.d);
    Ok(())
}

/// Joins sixteen 6-bit scales as [`scale_codes`] splits them.
fn join_scale_codes(codes: &[u8; 16]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (i, code) in codes.iter().enumerate() {
        bytes[i % 8] |= (code & 15) << (4 * (i / 8));
        bytes[8 + i % 4] |= (code >> 4) << (2 * (i / 4));
    }
    bytes
}
