//! IQ1_S and IQ1_M: 256 values from -1, 0 and 1, shifted by an eighth, eight at a time from a codebook
//! of 2048 rows.
//!
//! IQ1_S: `d` f16, 32 low bytes of rows, 8 words (u16), one for each group of 32: four times three high
//! bits of rows, 3 bits of scale, the sign of the shift. `value = d * (2 * scale + 1) * (grid ± 1/8)`.
//! IQ1_M: 32 low bytes of rows, 16 bytes of (3 high bits, sign of the shift) nibbles, 4 words of four
//! 3-bit scales, one for each group of 16, and a quarter of `d` (f16) in the top nibble.
//!
//! The integers are `8 * grid ± 1` with an eighth of the scale, which is exact.

use half::f16;

use super::grids::{IQ1, ONES};
use super::{field, half_at, odd};

/// integer = 8 * grid ± 1; factor = 2 * scale + 1; scale = d / 8.
#[inline(always)]
pub(crate) fn unpack_s(block: &[u8; 50], integers: &mut [i8; 256], factors: &mut [i8; 8]) -> f32 {
    let rows: &[u8; 32] = field(block, 2);
    let words: &[u8; 16] = field(block, 34);
    let groups = rows.as_chunks::<4>().0.iter().zip(words.as_chunks::<2>().0);
    for ((rows, word), (integers, factor)) in
        groups.zip(integers.as_chunks_mut::<32>().0.iter_mut().zip(factors))
    {
        let word = u16::from_le_bytes(*word);
        *factor = odd(u32::from(word >> 12 & 7));
        for (i, (row, integers)) in rows.iter().zip(integers.as_chunks_mut::<8>().0).enumerate() {
            let row = u16::from(*row) | (word >> (3 * i) & 7) << 8;
            *integers = shifted(row, word >> 15);
        }
    }
    half_at(block, 0) * 0.125
}

/// integer = 8 * grid ± 1; factor = 2 * scale + 1; scale = d / 8.
#[inline(always)]
pub(crate) fn unpack_m(block: &[u8; 56], integers: &mut [i8; 256], factors: &mut [i8; 16]) -> f32 {
    let words: &[u8; 8] = field(block, 48);
    let words = [0, 2, 4, 6].map(|i| u16::from_le_bytes([words[i], words[i + 1]]));
    let d = f16::from_bits(words[0] >> 12 | words[1] >> 12 << 4 | words[2] >> 12 << 8 | words[3] >> 12 << 12);
    for (word, factors) in words.iter().zip(factors.as_chunks_mut::<4>().0) {
        *factors = [0, 3, 6, 9].map(|shift| odd(u32::from(word >> shift & 7)));
    }
    let rows: &[u8; 32] = field(block, 0);
    let high: &[u8; 16] = field(block, 32);
    let pairs = rows.as_chunks::<2>().0.iter().zip(high);
    for ((rows, high), integers) in pairs.zip(integers.as_chunks_mut::<16>().0) {
        for (i, (row, integers)) in rows.iter().zip(integers.as_chunks_mut::<8>().0).enumerate() {
            let high = u16::from(high >> (4 * i) & 15);
            *integers = shifted(u16::from(*row) | (high & 7) << 8, high >> 3);
        }
    }
    d.to_f32() * 0.125
}

/// Eight times a codebook row, plus one in every place, or minus one when `down` is 1.
#[inline(always)]
fn shifted(row: u16, down: u16) -> [i8; 8] {
    let up = IQ1[usize::from(row & 2047)] + ONES;
    (up - 2 * u64::from(down) * ONES).to_le_bytes().map(|byte| byte as i8 - 16)
}
