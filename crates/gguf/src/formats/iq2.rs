//! IQ2_XXS, IQ2_XS and IQ2_S: 256 values, eight at a time from a codebook of magnitudes, with signs.
//!
//! IQ2_XXS: `d` f16, then for each of 8 groups of 32: four codebook rows (u8) and a word (u32) of four
//! times seven signs and a 4-bit scale. IQ2_XS: `d`, 32 words (u16) of a 9-bit row and seven signs, 16
//! 4-bit scales, one for each group of 16. IQ2_S: `d`, 32 low bytes of rows, 32 bytes of signs, 8 bytes
//! of four times two high bits of rows, 16 4-bit scales. All: `value = d * (scale + 1/2) / 4 * ±grid`.

use std::sync::LazyLock;

use super::codebook_search::{Codebook, CodedBlock};
use super::grids::{self, even_signs, signed};
use super::{TooLarge, field, half_at, join_nibble_codes, nibble_factors, odd};

static XXS: LazyLock<Codebook<8, 2>> = LazyLock::new(|| Codebook::new(grids::IQ2_XXS, 0));
static XS: LazyLock<Codebook<8, 2>> = LazyLock::new(|| Codebook::new(grids::IQ2_XS, 0));
static S: LazyLock<Codebook<8, 2>> = LazyLock::new(|| Codebook::new(grids::IQ2_S, 0));

/// integer = ±grid; factor = 2 * scale + 1; scale = d / 8; in groups of 32.
#[inline(always)]
pub(crate) fn unpack_xxs(block: &[u8; 66], integers: &mut [i8; 256], factors: &mut [i8; 8]) -> f32 {
    let groups = field::<64>(block, 2).as_chunks::<8>().0;
    for ((group, integers), factor) in groups.iter().zip(integers.as_chunks_mut::<32>().0).zip(factors) {
        let [rows @ .., _, _, _, _] = *group;
        let word = u32::from_le_bytes(*field(group, 4));
        *factor = odd(word >> 28);
        for (i, (row, integers)) in rows.iter().zip(integers.as_chunks_mut::<8>().0).enumerate() {
            *integers = signed(grids::IQ2_XXS[usize::from(*row)], even_signs(word >> (7 * i)));
        }
    }
    half_at(block, 0) * 0.125
}

/// integer = ±grid; factor = 2 * scale + 1; scale = d / 8; in groups of 16.
#[inline(always)]
pub(crate) fn unpack_xs(block: &[u8; 74], integers: &mut [i8; 256], factors: &mut [i8; 16]) -> f32 {
    nibble_factors(field::<8>(block, 66), factors);
    let words = field::<64>(block, 2).as_chunks::<2>().0;
    for (word, integers) in words.iter().zip(integers.as_chunks_mut::<8>().0) {
        let word = u16::from_le_bytes(*word);
        *integers = signed(grids::IQ2_XS[usize::from(word & 511)], even_signs(u32::from(word >> 9)));
    }
    half_at(block, 0) * 0.125
}

/// integer = ±grid; factor = 2 * scale + 1; scale = d / 8; in groups of 16.
#[inline(always)]
pub(crate) fn unpack_s(block: &[u8; 82], integers: &mut [i8; 256], factors: &mut [i8; 16]) -> f32 {
    nibble_factors(field::<8>(block, 74), factors);
    let rows: &[u8; 32] = field(block, 2);
    let signs: &[u8; 32] = field(block, 34);
    let high: &[u8; 8] = field(block, 66);
    for (i, integers) in integers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let row = usize::from(rows[i]) | usize::from(high[i / 4] >> (2 * (i % 4)) & 3) << 8;
        *integers = signed(grids::IQ2_S[row], signs[i]);
    }
    half_at(block, 0) * 0.125
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_xxs(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 66],
) -> Result<(), TooLarge> {
    let (CodedBlock { d, codes, rows }, signs) = XXS.encode(values, importance, 32, 8.0, true)?;
    block[..2].copy_from_slice(&d);
    for (group, bytes) in block[2..].as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (byte, row) in bytes.iter_mut().zip(&rows[4 * group..][..4]) {
            *byte = *row as u8;
        }
        bytes[4..].copy_from_slice(&grids::join_even_signs(&signs[4 * group..], codes[group]).to_le_bytes());
    }
    Ok(())
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_xs(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 74],
) -> Result<(), TooLarge> {
    let (CodedBlock { d, codes, rows }, signs) = XS.encode(values, importance, 16, 8.0, true)?;
    block[..2].copy_from_slice(&d);
    let words = block[2..66].as_chunks_mut::<2>().0.iter_mut();
    for ((word, row), signs) in words.zip(rows).zip(signs) {
        *word = (row | u16::from(signs & 127) << 9).to_le_bytes();
    }
    block[66..].copy_from_slice(&join_nibble_codes::<8>(&codes));
    Ok(())
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_s(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 82],
) -> Result<(), TooLarge> {
    let (CodedBlock { d, codes, rows }, signs) = S.encode(values, importance, 16, 8.0, false)?;
    block[..2].copy_from_slice(&d);
    for (byte, row) in block[2..34].iter_mut().zip(rows) {
        *byte = row as u8;
    }
    block[34..66].copy_from_slice(&signs);
    for (byte, rows) in block[66..74].iter_mut().zip(rows.as_chunks::<4>().0) {
        *byte = (0..4).fold(0, |bits, i| bits | ((rows[i] >> 8) as u8 & 3) << (2 * i));
    }
    block[74..].copy_from_slice(&join_nibble_codes::<8>(&codes));
    Ok(())
}
