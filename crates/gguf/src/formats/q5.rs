//! Q5_0 and Q5_1: 32 values of five bits, the fifth bits apart.
//!
//! Q5_0: `d` f16, 32 fifth bits, 16 bytes of nibbles; `value = d * (q - 16)`.
//! Q5_1: `d` f16, `m` f16, 32 fifth bits, 16 bytes of nibbles; `value = d * q + m`.

use super::grids::{ONES, byte_masks};
use super::q4::{AffineBlock, affine, symmetric};
use super::{TooLarge, field, half_at, join_nibbles};

/// integer = q - 16; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 22], integers: &mut [i8; 32]) -> f32 {
    // Without the fifth bit, a nibble less 16 is the nibble under four set bits.
    *integers = fives(field(block, 2), field(block, 6), |set| !set & (240 * ONES));
    half_at(block, 0)
}

/// integer = q; scale = d; min = m.
#[inline(always)]
pub(crate) fn unpack_1(block: &[u8; 24], integers: &mut [i8; 32]) -> (f32, f32) {
    *integers = fives(field(block, 4), field(block, 8), |set| set & (16 * ONES));
    (half_at(block, 0), half_at(block, 2))
}

/// Joins the nibbles, eight at a time in a word, with what `top` makes of their fifth bits (bit `i`
/// belongs to value `i`), given as bytes of 0xff where the bit is set.
#[inline(always)]
fn fives(high: &[u8; 4], low: &[u8; 16], top: impl Fn(u64) -> u64) -> [i8; 32] {
    let first = u64::from_le_bytes(*field(low, 0));
    let second = u64::from_le_bytes(*field(low, 8));
    let eights = [first, second, first >> 4, second >> 4];
    let mut out = [0; 32];
    for ((out, nibbles), bits) in out.as_chunks_mut::<8>().0.iter_mut().zip(eights).zip(high) {
        let joined = nibbles & (15 * ONES) | top(byte_masks(*bits));
        *out = joined.to_le_bytes().map(|byte| byte as i8);
    }
    out
}

/// The value of largest magnitude becomes -16; the others are rounded. With importance a search finds the scale.
pub(crate) fn encode_0(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 22],
) -> Result<(), TooLarge> {
    let (d, q) = symmetric(values, importance, 16.0)?;
    block[..2].copy_from_slice(&d);
    block[2..6].copy_from_slice(&fifth_bits(&q));
    block[6..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}

/// The smallest value becomes 0, the largest 31; the others are rounded. With importance a search finds scale and min.
pub(crate) fn encode_1(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 24],
) -> Result<(), TooLarge> {
    let AffineBlock { d, min, q } = affine(values, importance, 31.0)?;
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&min);
    block[4..8].copy_from_slice(&fifth_bits(&q));
    block[8..].copy_from_slice(&join_nibbles(&q));
    Ok(())
}

/// The fifth bit of value `i` in bit `i`.
#[inline(always)]
fn fifth_bits(q: &[u8; 32]) -> [u8; 4] {
    let bits = q.iter().enumerate().fold(0, |bits, (i, q)| bits | u32::from(q >> 4) << i);
    bits.to_le_bytes()
}
