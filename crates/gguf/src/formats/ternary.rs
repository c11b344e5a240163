//! TQ1_0 and TQ2_0: 256 values from -1, 0 and 1, all with the scale `d` (f16).
//!
//! TQ2_0: 64 bytes of two-bit digits as in Q2_K, `d`. TQ1_0: 48 bytes of five base-3 digits and 4 bytes
//! of four, `d`. A byte of digits is a fraction of 256: the first digit is the whole part of three times
//! it. Bytes 0..32 hold values 0..160 (run `i` of 32 values is digit `i`), bytes 32..48 the next five
//! runs of 16, the last four bytes four runs of 4. Both: `value = d * (digit - 1)`.

use super::q2_k::twos;
use super::{field, half_at};

/// integer = digit - 1; scale = d for all eight groups of 32.
#[inline(always)]
pub(crate) fn unpack_1(block: &[u8; 54], integers: &mut [i8; 256], scales: &mut [f32; 8]) {
    *scales = [half_at(block, 52); 8];
    digits::<32>(field(block, 0), &mut integers[..160]);
    digits::<16>(field(block, 32), &mut integers[160..240]);
    digits::<4>(field(block, 48), &mut integers[240..]);
}

/// integer = digit - 1; scale = d for all eight groups of 32.
#[inline(always)]
pub(crate) fn unpack_2(block: &[u8; 66], integers: &mut [i8; 256], scales: &mut [f32; 8]) {
    *scales = [half_at(block, 64); 8];
    *integers = twos(field(block, 0)).map(|digit| digit as i8 - 1);
}

/// The digits of `N` bytes, first digits first.
#[inline(always)]
fn digits<const N: usize>(bytes: &[u8; N], integers: &mut [i8]) {
    let mut power = 1u8;
    for run in integers.as_chunks_mut::<N>().0 {
        *run = bytes.map(|byte| (u16::from(byte.wrapping_mul(power)) * 3 >> 8) as i8 - 1);
        power = power.wrapping_mul(3);
    }
}
