//! IQ3_XXS and IQ3_S: 256 values, four at a time from a codebook of magnitudes, with signs.
//!
//! IQ3_XXS: `d` f16, 64 codebook rows (u8), then for each of 8 groups of 32 a word (u32) of four times
//! seven signs and a 4-bit scale; `value = d * (scale + 1/2) / 2 * ±grid`. IQ3_S: `d`, 64 low bytes of
//! rows, 8 bytes of ninth bits, 32 bytes of signs, 8 4-bit scales; `value = d * (2 * scale + 1) * ±grid`.

use std::sync::LazyLock;

use super::codebook_search::{Codebook, CodedBlock};
use super::grids::{self, even_signs, signed};
use super::{TooLarge, field, half_at, join_nibble_codes, nibble_factors, odd};

static XXS: LazyLock<Codebook<4, 7>> = LazyLock::new(|| Codebook::new(grids::IQ3_XXS.map(u64::from), 0));
static S: LazyLock<Codebook<4, 7>> = LazyLock::new(|| Codebook::new(grids::IQ3_S.map(u64::from), 0));

/// integer = ±grid; factor = 2 * scale + 1; scale = d / 4; in groups of 32.
#[inline(always)]
pub(crate) fn unpack_xxs(block: &[u8; 98], integers: &mut [i8; 256], factors: &mut [i8; 8]) -> f32 {
    let rows = field::<64>(block, 2).as_chunks::<8>().0;
    let words = field::<32>(block, 66).as_chunks::<4>().0;
    let groups = integers.as_chunks_mut::<32>().0.iter_mut().zip(factors);
    for ((rows, word), (integers, factor)) in rows.iter().zip(words).zip(groups) {
        let word = u32::from_le_bytes(*word);
        *factor = odd(word >> 28);
        let pairs = rows.as_chunks::<2>().0.iter().zip(integers.as_chunks_mut::<8>().0);
        for (i, ([first, second], integers)) in pairs.enumerate() {
            let magnitudes = pair(grids::IQ3_XXS[usize::from(*first)], grids::IQ3_XXS[usize::from(*second)]);
            *integers = signed(magnitudes, even_signs(word >> (7 * i)));
        }
    }
    half_at(block, 0) * 0.25
}

/// integer = ±grid; factor = 2 * scale + 1; scale = d; in groups of 32.
#[inline(always)]
pub(crate) fn unpack_s(block: &[u8; 110], integers: &mut [i8; 256], factors: &mut [i8; 8]) -> f32 {
    nibble_factors(field::<4>(block, 106), factors);
    let rows = field::<64>(block, 2).as_chunks::<2>().0;
    let high: &[u8; 8] = field(block, 66);
    let signs: &[u8; 32] = field(block, 74);
    let eights = rows.iter().zip(signs).zip(integers.as_chunks_mut::<8>().0);
    for (i, (([first, second], signs), integers)) in eights.enumerate() {
        let high = usize::from(high[i / 4] >> (2 * (i % 4)));
        let first = grids::IQ3_S[usize::from(*first) | (high & 1) << 8];
        let second = grids::IQ3_S[usize::from(*second) | (high >> 1 & 1) << 8];
        *integers = signed(pair(first, second), *signs);
    }
    half_at(block, 0)
}

/// Two rows of four magnitudes as one of eight.
#[inline(always)]
fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_xxs(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 98],
) -> Result<(), TooLarge> {
    let (CodedBlock { d, codes, rows }, signs) = XXS.encode(values, importance, 32, 4.0, true)?;
    block[..2].copy_from_slice(&d);
    block[2..66].copy_from_slice(&rows.map(|row| row as u8));
    for (group, word) in block[66..].as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *word = grids::join_even_signs(&signs[4 * group..], codes[group]).to_le_bytes();
    }
    Ok(())
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_s(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 110],
) -> Result<(), TooLarge> {
    let (CodedBlock { d, codes, rows }, signs) = S.encode(values, importance, 32, 1.0, false)?;
    block[..2].copy_from_slice(&d);
    block[2..66].copy_from_slice(&rows.map(|row| row as u8));
    for (byte, rows) in block[66..74].iter_mut().zip(rows.as_chunks::<8>().0) {
        *byte = (0..8).fold(0, |bits, i| bits | ((rows[i] >> 8) as u8 & 1) << i);
    }
    block[74..106].copy_from_slice(&signs);
    block[106..].copy_from_slice(&join_nibble_codes::<4>(&codes));
    Ok(())
}
