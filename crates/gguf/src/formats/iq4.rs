//! IQ4_NL and IQ4_XS: four-bit places in a fixed list of sixteen unevenly spaced integers.
//!
//! IQ4_NL: 32 values, `d` f16, 16 bytes of nibbles; `value = d * LEVELS[q]`. IQ4_XS: 256 values in 8
//! groups of 32, `d` f16, 8 times two high bits of scale (u16), 8 low nibbles of scale, 128 bytes of
//! nibbles; `value = (d * (scale - 32)) * LEVELS[q]`.

use super::search::{largest, reciprocal, sums, weights};
use super::{TooLarge, field, half, half_at, join_nibbles, nibbles};

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

/// Searches for the scale whose levels fit the values best: candidates around the largest value, each
/// refined by weighted least squares.
pub(crate) fn encode_nl(
    values: &[f32; 32],
    importance: Option<&[f32; 32]>,
    block: &mut [u8; 18],
) -> Result<(), TooLarge> {
    let weights = weights(values, importance);
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
    let (d_bytes, d) = half(best)?;
    let inverse = reciprocal(d);
    let q = values.map(|value| nearest(value * inverse));
    block[..2].copy_from_slice(&d_bytes);
    block[2..].copy_from_slice(&join_nibbles(&q));
    Ok(())
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
