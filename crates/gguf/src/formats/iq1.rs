//! IQ1_S and IQ1_M: 256 values from -1, 0 and 1, shifted by an eighth, eight at a time from a codebook
//! of 2048 rows.
//!
//! IQ1_S: `d` f16, 32 low bytes of rows, 8 words (u16), one for each group of 32: four times three high
//! bits of rows, 3 bits of scale, the sign of the shift. `value = d * (2 * scale + 1) * (grid ± 1/8)`.
//! IQ1_M: 32 low bytes of rows, 16 bytes of (3 high bits, sign of the shift) nibbles, 4 words of four
//! 3-bit scales, one for each group of 16, and a quarter of `d` (f16) in the top nibble.
//!
//! The integers are `8 * grid ± 1` with an eighth of the scale, which is exact.

use std::sync::LazyLock;

use half::f16;

use super::codebook_search::{Codebook, CodedBlock, Rows, Scales, sum};
use super::grids::{IQ1, ONES};
use super::search::{largest, reciprocal, weights};
use super::{TooLarge, field, half_at, odd};

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

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_s(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 50],
) -> Result<(), TooLarge> {
    let scales = Scales { group: 32, top_code: 7.0, stored: 8.0 };
    let CodedBlock { d, codes, rows } =
        SHIFTED_GROUPS.encode_groups(values, &weights(values, importance), &scales)?;
    block[..2].copy_from_slice(&d);
    for (byte, row) in block[2..34].iter_mut().zip(rows) {
        *byte = row as u8;
    }
    let words = block[34..].as_chunks_mut::<2>().0.iter_mut();
    for ((word, rows), code) in words.zip(rows.as_chunks::<4>().0).zip(codes) {
        let high = (0..4).fold(0, |bits, i| bits | (rows[i] >> 8 & 7) << (3 * i));
        *word = (high | u16::from(code) << 12 | (rows[0] & DOWN) << 4).to_le_bytes();
    }
    Ok(())
}

/// Searches the codebook for each group: see [`super::codebook_search`].
pub(crate) fn encode_m(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    block: &mut [u8; 56],
) -> Result<(), TooLarge> {
    let scales = Scales { group: 16, top_code: 7.0, stored: 8.0 };
    let CodedBlock { d, codes, rows } =
        SHIFTED_RUNS.encode_groups(values, &weights(values, importance), &scales)?;
    for (byte, row) in block[..32].iter_mut().zip(rows) {
        *byte = row as u8;
    }
    // The three high bits of a row and its shift are a nibble as they stand.
    for (byte, rows) in block[32..48].iter_mut().zip(rows.as_chunks::<2>().0) {
        *byte = (rows[0] >> 8 & 15 | (rows[1] >> 8 & 15) << 4) as u8;
    }
    let words = block[48..].as_chunks_mut::<2>().0.iter_mut();
    for (i, (word, codes)) in words.zip(codes.as_chunks::<4>().0).enumerate() {
        let codes = (0..4).fold(0, |bits, i| bits | u16::from(codes[i]) << (3 * i));
        *word = (codes | (u16::from_le_bytes(d) >> (4 * i) & 15) << 12).to_le_bytes();
    }
    Ok(())
}

/// The codebook with a shift for all rows of a group.
static SHIFTED_GROUPS: LazyLock<Shifted> =
    LazyLock::new(|| Shifted { book: Codebook::new(IQ1, 16), shared: true });
/// The codebook with a shift for each row.
static SHIFTED_RUNS: LazyLock<Shifted> =
    LazyLock::new(|| Shifted { book: Codebook::new(IQ1, 16), shared: false });

/// The bit of a row that is shifted down, above its number.
const DOWN: u16 = 1 << 11;

/// Rows of the codebook, shifted up or down by one (they have eights).
struct Shifted {
    book: Codebook<8, 2>,
    /// Whether all rows of a group have the same shift.
    shared: bool,
}

/// What stands for a few runs of values.
struct Choice {
    /// The weighted square of what is lost, in units of the scale.
    distance: f32,
    /// Σwqx and Σwqq.
    sums: [f32; 2],
    rows: [u16; 4],
}

impl Shifted {
    /// The rows of one shift that are nearest to at most 32 values.
    fn nearest(&self, values: &[f32], weights: &[f32], inverse: f32, down: bool) -> Choice {
        let (shift, bit) = if down { (-1.0, DOWN) } else { (1.0, 0) };
        let mut choice = Choice { distance: 0.0, sums: [0.0; 2], rows: [0; 4] };
        let runs = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
        for ((values, weights), row) in runs.zip(&mut choice.rows) {
            let (distance, index) = self.book.nearest(&values.map(|value| value * inverse - shift), weights);
            let q = self.book.row(index).map(|level| level + shift);
            choice.distance += distance;
            choice.sums[0] += sum::<8>(std::array::from_fn(|i| weights[i] * q[i] * values[i]));
            choice.sums[1] += sum::<8>(std::array::from_fn(|i| weights[i] * q[i] * q[i]));
            *row = index | bit;
        }
        choice
    }
}

impl Rows for Shifted {
    const RUN: usize = 8;

    fn top(&self) -> f32 {
        9.0
    }

    /// Three levels stand best for normal values at 1.2 times their spread; for a few among many small ones, at theirs.
    fn candidates(&self, values: &[f32], weights: &[f32]) -> impl Iterator<Item = f32> {
        let squares: f32 = values.iter().zip(weights).map(|(value, weight)| weight * value * value).sum();
        let spread = (squares * reciprocal(weights.iter().sum())).sqrt();
        let largest = largest(values).abs();
        let around = (-3i8..=5).map(move |step| 1.2 * spread * (1.0 + 0.16 * f32::from(step)));
        around.chain([largest, 0.8 * largest]).map(|level| level / 8.0)
    }

    fn rows_at(&self, values: &[f32], weights: &[f32], scale: f32, rows: &mut [u16]) -> [f32; 2] {
        let inverse = reciprocal(scale);
        let span = if self.shared { 32 } else { 8 };
        let mut sums = [0.0; 2];
        let spans = values.chunks(span).zip(weights.chunks(span));
        for ((values, weights), rows) in spans.zip(rows.chunks_mut(span / 8)) {
            let [up, down] = [false, true].map(|down| self.nearest(values, weights, inverse, down));
            let choice = if down.distance < up.distance { down } else { up };
            rows.copy_from_slice(&choice.rows[..rows.len()]);
            sums = [sums[0] + choice.sums[0], sums[1] + choice.sums[1]];
        }
        sums
    }
}
