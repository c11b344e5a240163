//! The codebooks of the IQ formats, expanded at compile time into packed bytes that a block reads with
//! one load per eight (or four) values, and the signs that go with them.

use super::codebooks;

/// Magnitudes of the IQ2 formats.
const IQ2_MAGNITUDES: [u8; 4] = [8, 25, 43, 0];
/// Magnitudes of IQ3_XXS.
const IQ3_XXS_MAGNITUDES: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
/// Magnitudes of IQ3_S.
const IQ3_S_MAGNITUDES: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
/// Eight times the values -1, 0, 1 of the IQ1 formats, as bytes, each 16 too large: see [`IQ1`].
const IQ1_MAGNITUDES: [u8; 4] = [8, 16, 24, 0];

/// What integers of the IQ2 formats can be.
pub(crate) const IQ2_LEVELS: [i8; 16] = both_signs([8, 25, 43]);
/// The same of IQ3_XXS.
pub(crate) const IQ3_XXS_LEVELS: [i8; 16] = both_signs(IQ3_XXS_MAGNITUDES);
/// The same of IQ3_S.
pub(crate) const IQ3_S_LEVELS: [i8; 16] = both_signs(IQ3_S_MAGNITUDES);
/// The same of the IQ1 formats: eight times -1, 0 or 1, and one more or less.
pub(crate) const IQ1_LEVELS: [i8; 16] = both_signs([1, 7, 9]);

/// Magnitudes with either sign in ascending order, then 127.
const fn both_signs<const N: usize>(magnitudes: [u8; N]) -> [i8; 16] {
    let mut levels = [i8::MAX; 16];
    let mut i = 0;
    while i < N {
        levels[N - 1 - i] = -(magnitudes[i] as i8);
        levels[N + i] = magnitudes[i] as i8;
        i += 1;
    }
    levels
}

/// Eight magnitudes a row, one a byte.
pub(super) static IQ2_XXS: [u64; 256] = eights(&codebooks::IQ2_XXS, IQ2_MAGNITUDES);
/// Eight magnitudes a row, one a byte.
pub(super) static IQ2_XS: [u64; 512] = eights(&codebooks::IQ2_XS, IQ2_MAGNITUDES);
/// Eight magnitudes a row, one a byte.
pub(super) static IQ2_S: [u64; 1024] = eights(&codebooks::IQ2_S, IQ2_MAGNITUDES);
/// Four magnitudes a row, one a byte.
pub(super) static IQ3_XXS: [u32; 256] = fours(&codebooks::IQ3_XXS, IQ3_XXS_MAGNITUDES);
/// Four magnitudes a row, one a byte.
pub(super) static IQ3_S: [u32; 512] = fours(&codebooks::IQ3_S, IQ3_S_MAGNITUDES);
/// Eight values a row, one a byte: 8 * value + 16, so that adding or taking one never carries.
pub(super) static IQ1: [u64; 2048] = eights(&codebooks::IQ1, IQ1_MAGNITUDES);

/// For each byte of bits, eight bytes: 0xff where the bit is set.
static BYTE_MASKS: [u64; 256] = expand_bits();

/// Seven sign bits with the eighth that makes their number even.
static EVEN_SIGNS: [u8; 128] = {
    let mut signs = [0; 128];
    let mut seven = 0u8;
    while seven < 128 {
        signs[seven as usize] = seven | (seven.count_ones() as u8 & 1) << 7;
        seven += 1;
    }
    signs
};

/// One in every byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

const fn eights<const ROWS: usize>(places: &[u16; ROWS], magnitudes: [u8; 4]) -> [u64; ROWS] {
    let mut rows = [0; ROWS];
    let mut row = 0;
    while row < ROWS {
        let mut i = 0;
        while i < 8 {
            rows[row] |= (magnitudes[(places[row] >> (2 * i)) as usize & 3] as u64) << (8 * i);
            i += 1;
        }
        row += 1;
    }
    rows
}

const fn fours<const ROWS: usize>(places: &[u16; ROWS], magnitudes: [u8; 8]) -> [u32; ROWS] {
    let mut rows = [0; ROWS];
    let mut row = 0;
    while row < ROWS {
        let mut i = 0;
        while i < 4 {
            rows[row] |= (magnitudes[(places[row] >> (4 * i)) as usize & 7] as u32) << (8 * i);
            i += 1;
        }
        row += 1;
    }
    rows
}

const fn expand_bits() -> [u64; 256] {
    let mut masks = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut i = 0;
        while i < 8 {
            if bits >> i & 1 == 1 {
                masks[bits] |= 0xff << (8 * i);
            }
            i += 1;
        }
        bits += 1;
    }
    masks
}

/// Eight bytes from eight bits, the lowest first: 0xff where the bit is set.
#[inline(always)]
pub(super) fn byte_masks(bits: u8) -> u64 {
    BYTE_MASKS[usize::from(bits)]
}

/// Gives eight packed magnitudes their signs (bit set: negative). No magnitude may be zero, so that
/// negating a byte (complement, plus one) never carries into the next.
#[inline(always)]
pub(super) fn signed(magnitudes: u64, signs: u8) -> [i8; 8] {
    let mask = byte_masks(signs);
    ((magnitudes ^ mask) + (mask & ONES)).to_le_bytes().map(|byte| byte as i8)
}

/// Completes seven stored sign bits with the eighth: the number of negative values is always even.
#[inline(always)]
pub(super) fn even_signs(seven: u32) -> u8 {
    EVEN_SIGNS[(seven & 127) as usize]
}

/// Four times seven signs of eight, whose number is even, and a 4-bit scale on top.
pub(super) fn join_even_signs(signs: &[u8], scale: u8) -> u32 {
    let signs = signs.iter().take(4).rev().fold(0, |word, signs| word << 7 | u32::from(signs & 127));
    signs | u32::from(scale) << 28
}
