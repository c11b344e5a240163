//! IQ4_NL and IQ4_XS: four-bit places in a fixed list of sixteen unevenly spaced integers.
//!
//! IQ4_NL: 32 values, `d` f16, 16 bytes of nibbles; `value = d * LEVELS[q]`. IQ4_XS: 256 values in 8
//! groups of 32, `d` f16, 8 times two high bits of scale (u16), 8 low nibbles of scale, 128 bytes of
//! nibbles; `value = (d * (scale - 32)) * LEVELS[q]`.

use super::search::{largest, reciprocal, square_error, sums, weights};
use super::{TooLarge, field, groups_of, half, half_at, join_nibbles, nibbles, superblock};

/// What the sixteen places stand for, ascending.
pub(crate) const LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// integer = LEVELS[q]; scale = d.
#[inline(always)]
pub(crate) fn unpack_nl(block: &[u8; 18], integers: &mut [i8; 32]) -> f32 {
    *integers = levels(field(block, 2), &LEVELS);
    half_at(block, 0)
}

/// integer = LEVELS[q]; factor = scale - 32; scale = d.
#[inline(always)]
pub(crate) fn unpack_xs(block: &[u8; 136], integers: &mut [i8; 256], factors: &mut [i8; 8]) -> f32 {
    let high = u16::from_le_bytes(*field(block, 2));
    let low: &[u8; 4] = field(block, 4);
    for (i, factor) in factors.iter_mut().enumerate() {
        let code = low[i / 2] >> (4 * (i % 2)) & 15 | ((high >> (2 * i) & 3) << 4) as u8;
        *factor = code as i8 - 32;
    }
    let groups = field::<128>(block, 8).as_chunks::<16>().0;
    for (bytes, integers) in groups.iter().zip(integers.as_chunks_mut::<32>().0) {
        *integers = levels(bytes, &LEVELS);
    }
    half_at(block, 0)
}

/// The levels of 32 nibbles.
#[inline(always)]
pub(super) fn levels(bytes: &[u8; 16], levels: &[i8; 16]) -> [i8; 32] {
    nibbles(bytes).map(|q| levels[usize::from(q & 15)])
}

/// Searches for the scale whose levels fit the values best.
pub(crate) fn encode_nl(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 18],
) -> Result<(), TooLarge> {
    let (d_bytes, d) = half(scale(values, &weights(values, importance)))?;
    block[..2].copy_from_slice(&d_bytes);
    block[2..].copy_from_slice(&places(values, d));
    Ok(())
}

/// The same for each group, whose scale is a 6-bit code times the block's; the codes are tried against their neighbours.
pub(crate) fn encode_xs(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 136],
) -> Result<(), TooLarge> {
    let values: &[[f32; 32]; 8] = groups_of(values);
    let weights: [[f32; 32]; 8] = superblock::weights(values, importance.map(groups_of));
    let scales: [f32; 8] = std::array::from_fn(|g| scale(&values[g], &weights[g]));
    let (d_bytes, d) = superblock::unit(largest(&scales), -32.0)?;
    block.fill(0);
    block[..2].copy_from_slice(&d_bytes);
    for (g, (values, weights)) in values.iter().zip(&weights).enumerate() {
        let middle = superblock::code(scales[g], d, -32.0, 31.0);
        let mut best = (f32::INFINITY, middle);
        for step in [0.0, -1.0, 1.0] {
            let code = (middle + step).clamp(-32.0, 31.0);
            let (scale, inverse) = (d * code, reciprocal(d * code));
            let error = square_error(values, weights, |value| scale * nearest_level(value * inverse));
            if error < best.0 {
                best = (error, code);
            }
        }
        let code = (best.1 + 32.0) as u8;
        block[2 + g / 4] |= (code >> 4) << (2 * (g % 4));
        block[4 + g / 2] |= (code & 15) << (4 * (g % 2));
        block[8 + 16 * g..][..16].copy_from_slice(&places(values, d * best.1));
    }
    Ok(())
}

/// The places of the levels nearest to a group's values.
fn places(values: &[f32; 32], scale: f32) -> [u8; 16] {
    let inverse = reciprocal(scale);
    join_nibbles(&values.map(|value| nearest(value * inverse)))
}

/// The scale of least weighted squared error: candidates around the largest value, each refined by least squares.
fn scale(values: &[f32; 32], weights: &[f32; 32]) -> f32 {
    let largest = largest(values);
    let mut best = largest / f32::from(LEVELS[0]);
    let mut most = 0.0;
    for step in -8i8..=8 {
        for end in [LEVELS[0], LEVELS[15]] {
            let inverse = (f32::from(end) + f32::from(step)) * reciprocal(largest);
            let [sum_qx, sum_qq] = sums::<32, 2>(|i| {
                let level = nearest_level(values[i] * inverse);
                [weights[i] * level * values[i], weights[i] * level * level]
            });
            // The error is the values' square sum less this.
            let gain = sum_qx * sum_qx / sum_qq;
            if gain > most {
                most = gain;
                best = sum_qx / sum_qq;
            }
        }
    }
    best
}

/// The level nearest to a value: from the lowest, one step up for every midpoint between two levels
/// that lies below it. Without a table, so that loops over it vectorise.
#[inline(always)]
fn nearest_level(value: f32) -> f32 {
    let mut level = f32::from(LEVELS[0]);
    for pair in LEVELS.windows(2) {
        let (low, high) = (f32::from(pair[0]), f32::from(pair[1]));
        level += if value > 0.5 * (low + high) { high - low } else { 0.0 };
    }
    level
}

/// The place of the level nearest to a value: how many midpoints between two levels lie below it.
#[inline(always)]
fn nearest(value: f32) -> u8 {
    LEVELS
        .windows(2)
        .fold(0, |place, pair| place + u8::from(value > 0.5 * (f32::from(pair[0]) + f32::from(pair[1]))))
}
