//! One file per family of block formats: how a block is laid out, unpacked into integers and scales,
//! and encoded from floats. [`crate::Format`] dispatches to them; nothing else needs to know a layout.
//!
//! A family unpacks one block at a time between arrays of fixed length, so that the loops have no
//! bounds checks; the drivers here walk over the blocks of a row.

mod codebook_search;
mod codebooks;
pub(crate) mod grids;
pub(crate) mod iq1;
pub(crate) mod iq2;
pub(crate) mod iq3;
pub(crate) mod iq4;
pub(crate) mod mxfp4;
pub(crate) mod plain;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4;
pub(crate) mod q4_k;
pub(crate) mod q5;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8;
mod search;
mod superblock;
pub(crate) mod ternary;

use half::f16;

use crate::Unpacked;

/// Unpacks every block of a row with `block`, which returns the block's scale: formats of one level.
#[inline(always)]
pub(crate) fn unpack_plain<const BYTES: usize, const LEN: usize>(
    block: impl Fn(&[u8; BYTES], &mut [i8; LEN]) -> f32,
    bytes: &[u8],
    out: Unpacked,
) {
    out.factors.fill(1);
    let integers = out.integers.as_chunks_mut().0.iter_mut();
    for ((bytes, integers), scale) in bytes.as_chunks().0.iter().zip(integers).zip(out.scales) {
        *scale = block(bytes, integers);
    }
}

/// The same for formats of one level with mins: `block` returns scale and min.
#[inline(always)]
pub(crate) fn unpack_plain_offset<const BYTES: usize, const LEN: usize>(
    block: impl Fn(&[u8; BYTES], &mut [i8; LEN]) -> (f32, f32),
    bytes: &[u8],
    out: Unpacked,
) {
    out.factors.fill(1);
    out.min_factors.fill(1);
    let integers = out.integers.as_chunks_mut().0.iter_mut();
    let scales = out.scales.iter_mut().zip(out.mins);
    for ((bytes, integers), (scale, min)) in bytes.as_chunks().0.iter().zip(integers).zip(scales) {
        (*scale, *min) = block(bytes, integers);
    }
}

/// Unpacks every block of a row with `block`, which fills in the groups' factors and returns the scale.
#[inline(always)]
pub(crate) fn unpack_scaled<const BYTES: usize, const LEN: usize, const GROUPS: usize>(
    block: impl Fn(&[u8; BYTES], &mut [i8; LEN], &mut [i8; GROUPS]) -> f32,
    bytes: &[u8],
    out: Unpacked,
) {
    let integers = out.integers.as_chunks_mut().0.iter_mut();
    let factors = out.factors.as_chunks_mut().0.iter_mut();
    let blocks = bytes.as_chunks().0.iter().zip(integers).zip(factors);
    for (((bytes, integers), factors), scale) in blocks.zip(out.scales) {
        *scale = block(bytes, integers, factors);
    }
}

/// The same for formats with mins: `block` fills in two factors a group and returns scale and min.
#[inline(always)]
pub(crate) fn unpack_offset<const BYTES: usize, const LEN: usize, const GROUPS: usize>(
    block: impl Fn(&[u8; BYTES], &mut [i8; LEN], &mut [i8; GROUPS], &mut [i8; GROUPS]) -> (f32, f32),
    bytes: &[u8],
    out: Unpacked,
) {
    let integers = out.integers.as_chunks_mut().0.iter_mut();
    let factors = out.factors.as_chunks_mut().0.iter_mut().zip(out.min_factors.as_chunks_mut().0);
    let scales = out.scales.iter_mut().zip(out.mins);
    let blocks = bytes.as_chunks().0.iter().zip(integers).zip(factors);
    for (((bytes, integers), (factors, min_factors)), (scale, min)) in blocks.zip(scales) {
        (*scale, *min) = block(bytes, integers, factors, min_factors);
    }
}

/// The factor 2s + 1 of a small scale s.
#[inline(always)]
fn odd(scale: u32) -> i8 {
    (2 * scale + 1) as i8
}

/// The factors of 4-bit scales, low nibbles first.
#[inline(always)]
fn nibble_factors(codes: &[u8], factors: &mut [i8]) {
    for (code, factors) in codes.iter().zip(factors.as_chunks_mut::<2>().0) {
        *factors = [code & 15, code >> 4].map(|scale| odd(u32::from(scale)));
    }
}

/// Joins 4-bit scales as [`nibble_factors`] splits them.
fn join_nibble_codes<const N: usize>(codes: &[u8; 16]) -> [u8; N] {
    std::array::from_fn(|i| codes[2 * i] | codes[2 * i + 1] << 4)
}

/// The `N` bytes of a block that start at `at`; both are constants of the layout.
#[inline(always)]
fn field<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("a field lies inside its block")
}

/// The half-precision number at `at`.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(*field(block, at)).to_f32()
}

/// Splits bytes into their low nibbles, then their high nibbles: the order of every 32-value group.
#[inline(always)]
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut out = [0; 32];
    let (low, high) = out.split_at_mut(16);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
    out
}

/// Joins 32 four-bit values as [`nibbles`] splits them.
#[inline(always)]
fn join_nibbles(q: &[u8; 32]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = q[i] & 15 | q[16 + i] << 4;
    }
    bytes
}

/// The values of a block are so large that its scale does not fit a half-precision number.
pub(crate) struct TooLarge;

/// A scale as it is stored, and as it will be read back.
#[inline(always)]
fn half(number: f32) -> Result<([u8; 2], f32), TooLarge> {
    let half = f16::from_f32(number);
    if half.is_finite() { Ok((half.to_le_bytes(), half.to_f32())) } else { Err(TooLarge) }
}

/// Encodes every block of a row with `block`, which is told how much each value matters where that is known; on failure
/// says which block.
pub(crate) fn encode_blocks<const LEN: usize, const BYTES: usize>(
    block: impl Fn(&[f32; LEN], Option<&[f32; LEN]>, &mut [u8; BYTES]) -> Result<(), TooLarge>,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), usize> {
    let blocks = values.as_chunks().0.iter().zip(out.as_chunks_mut().0);
    for (i, (values, out)) in blocks.enumerate() {
        let importance = importance.map(|importance| &importance.as_chunks().0[i]);
        block(values, importance, out).map_err(|TooLarge| i)?;
    }
    Ok(())
}

/// The same for formats that leave an encoder no choice.
pub(crate) fn without_importance<const LEN: usize, const BYTES: usize>(
    block: impl Fn(&[f32; LEN], &mut [u8; BYTES]) -> Result<(), TooLarge>,
    values: &[f32],
    out: &mut [u8],
) -> Result<(), usize> {
    encode_blocks(|values, _, out| block(values, out), values, None, out)
}

/// Splits the 256 values of a block into its groups.
#[inline(always)]
fn groups_of<const GROUPS: usize, const N: usize>(values: &[f32; 256]) -> &[[f32; N]; GROUPS] {
    values.as_chunks().0.try_into().expect("groups divide the block")
}
