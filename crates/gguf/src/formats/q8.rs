//! Q8_0 and Q8_K: values of eight bits.
//!
//! Q8_0: `d` f16, 32 signed bytes. Q8_K: `d` f32, 256 signed bytes, 16 sums of 16 of them (i16), which
//! only dot products use. Both: `value = d * q`.

use super::search::{largest, quantise, reciprocal};
use super::{TooLarge, field, half, half_at};

/// integer = q; scale = d.
#[inline(always)]
pub(crate) fn unpack_0(block: &[u8; 34], integers: &mut [i8; 32]) -> f32 {
    *integers = field::<32>(block, 2).map(|q| q as i8);
    half_at(block, 0)
}

/// integer = q; scale = d.
#[inline(always)]
pub(crate) fn unpack_k(block: &[u8; 292], integers: &mut [i8; 256]) -> f32 {
    *integers = field::<256>(block, 4).map(|q| q as i8);
    f32::from_le_bytes(*field(block, 0))
}

/// The value of largest magnitude becomes ±127; the others are rounded, halves away from zero.
pub(crate) fn encode_0(values: &[f32; 32], block: &mut [u8; 34]) -> Result<(), TooLarge> {
    let d = largest(values).abs() / 127.0;
    let inverse = reciprocal(d);
    let q = values.map(|value| (value * inverse).round() as i8 as u8);
    block[..2].copy_from_slice(&half(d)?.0);
    block[2..].copy_from_slice(&q);
    Ok(())
}

/// The value of largest magnitude becomes -127; the others are rounded.
pub(crate) fn encode_k(values: &[f32; 256], block: &mut [u8; 292]) -> Result<(), TooLarge> {
    let d = largest(values) / -127.0;
    let inverse = reciprocal(d);
    let q = values.map(|value| quantise(value * inverse, -127.0, 127.0) as i8);
    let (front, sums) = block.split_at_mut(260);
    front[..4].copy_from_slice(&d.to_le_bytes());
    front[4..].copy_from_slice(&q.map(|q| q as u8));
    for (sum, q) in sums.as_chunks_mut::<2>().0.iter_mut().zip(q.as_chunks::<16>().0) {
        *sum = q.iter().map(|q| i16::from(*q)).sum::<i16>().to_le_bytes();
    }
    Ok(())
}
