//! TQ1_0 and TQ2_0: 256 values from -1, 0 and 1, all with the scale `d` (f16).
//!
//! TQ2_0: 64 bytes of two-bit digits as in Q2_K, `d`. TQ1_0: 48 bytes of five base-3 digits and 4 bytes
//! of four, `d`. A byte of digits is a fraction of 256: the first digit is the whole part of three times
//! it. Bytes 0..32 hold values 0..160 (run `i` of 32 values is digit `i`), bytes 32..48 the next five
//! runs of 16, the last four bytes four runs of 4. Both: `value = d * (digit - 1)`.

use super::q2_k::{join_twos, twos};
use super::search::{largest, reciprocal};
use super::{TooLarge, field, half, half_at};

/// integer = digit - 1; scale = d.
#[inline(always)]
pub(crate) fn unpack_1(block: &[u8; 54], integers: &mut [i8; 256]) -> f32 {
    digits::<32>(field(block, 0), &mut integers[..160]);
    digits::<16>(field(block, 32), &mut integers[160..240]);
    digits::<4>(field(block, 48), &mut integers[240..]);
    half_at(block, 52)
}

/// integer = digit - 1; scale = d.
#[inline(always)]
pub(crate) fn unpack_2(block: &[u8; 66], integers: &mut [i8; 256]) -> f32 {
    *integers = twos(field(block, 0)).map(|digit| digit as i8 - 1);
    half_at(block, 64)
}

/// The digits of `N` bytes, first digits first.
#[inline(always)]
fn digits<const N: usize>(bytes: &[u8; N], integers: &mut [i8]) {
    let mut power = 1u8;
    for run in integers.as_chunks_mut::<N>().0 {
        *run = bytes.map(|byte| ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as i8 - 1);
        power = power.wrapping_mul(3);
    }
}

/// The value of largest magnitude becomes ±1; the others are rounded to -1, 0 or 1.
pub(crate) fn encode_1(values: &[f32; 256], block: &mut [u8; 54]) -> Result<(), TooLarge> {
    let (d, q) = ternary(values)?;
    join_digits::<32>(&q[..160], &mut block[..32]);
    join_digits::<16>(&q[160..240], &mut block[32..48]);
    join_digits::<4>(&q[240..], &mut block[48..52]);
    block[52..].copy_from_slice(&d);
    Ok(())
}

/// The value of largest magnitude becomes ±1; the others are rounded to -1, 0 or 1.
pub(crate) fn encode_2(values: &[f32; 256], block: &mut [u8; 66]) -> Result<(), TooLarge> {
    let (d, q) = ternary(values)?;
    block[..64].copy_from_slice(&join_twos(&q));
    block[64..].copy_from_slice(&d);
    Ok(())
}

/// The scale and the digits 0, 1 and 2 of a block.
fn ternary(values: &[f32; 256]) -> Result<([u8; 2], [u8; 256]), TooLarge> {
    let d = largest(values).abs();
    let inverse = reciprocal(d);
    Ok((half(d)?.0, values.map(|value| ((value * inverse).round().clamp(-1.0, 1.0) + 1.0) as u8)))
}

/// Joins digits as [`digits`] splits them: the least fraction of 256 that still has them.
fn join_digits<const N: usize>(q: &[u8], bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        let mut number = 0u16;
        for run in 0..5 {
            number = number * 3 + q.get(run * N + i).map_or(0, |digit| u16::from(*digit));
        }
        *byte = (number * 256).div_ceil(243) as u8;
    }
}
