//! Encoding with a codebook: IQ1 to IQ3. A block's values are `unit * (2 * code + 1) * ±row`: rows of four or eight
//! magnitudes from a fixed list, a small code of scale for each group, signs for each value (IQ1 has rows with signs in
//! them, and a shift of all their values).
//!
//! For each group candidate scales are tried, each with the nearest row for every run of values and refined by weighted
//! least squares; then the block's unit is chosen so that the largest scale has the largest code, the codes are tried
//! against their neighbours, and the unit is fitted to what they gave.

use super::search::{largest, reciprocal, weights};
use super::{TooLarge, half};

/// How many rows near a point are compared by their weighted distance.
const NEAR: usize = 8;
/// Rows in a block of 256 values, at most.
const MOST_ROWS: usize = 64;

/// A codebook of rows of `D` magnitudes, of which there are one more than `MIDPOINTS`, that can be searched.
pub(super) struct Codebook<const D: usize, const MIDPOINTS: usize> {
    rows: Vec<[f32; D]>,
    /// All magnitudes that there are, ascending.
    levels: Vec<f32>,
    /// Halfway between one and the next.
    midpoints: [f32; MIDPOINTS],
    /// For each point, whose coordinates are levels, the rows that are nearest to it, `NEAR` of them.
    near: Vec<[u16; NEAR]>,
}

impl<const D: usize, const MIDPOINTS: usize> Codebook<D, MIDPOINTS> {
    /// Rows of bytes, the first in the lowest bits; the byte `zero` stands for 0.
    pub(super) fn new<const ROWS: usize>(rows: [u64; ROWS], zero: u8) -> Codebook<D, MIDPOINTS> {
        let value = |row: u64, i: usize| f32::from((row >> (8 * i)) as u8) - f32::from(zero);
        let rows: Vec<[f32; D]> = rows.iter().map(|row| std::array::from_fn(|i| value(*row, i))).collect();
        let mut levels: Vec<f32> = rows.as_flattened().to_vec();
        levels.sort_by(f32::total_cmp);
        levels.dedup();
        let midpoints = std::array::from_fn(|i| 0.5 * (levels[i] + levels[i + 1]));
        let mut book = Codebook { rows, levels, midpoints, near: vec![] };
        book.near = (0..book.levels.len().pow(D as u32)).map(|point| book.nearest_to(point)).collect();
        book
    }

    /// The rows that are nearest to a point, nearest first.
    fn nearest_to(&self, point: usize) -> [u16; NEAR] {
        let mut rest = point;
        let point: [f32; D] = std::array::from_fn(|_| {
            let level = self.levels[rest % self.levels.len()];
            rest /= self.levels.len();
            level
        });
        let distance =
            |row: &[f32; D]| -> f32 { row.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum() };
        let mut nearest = [(f32::INFINITY, 0); NEAR];
        for (index, row) in self.rows.iter().enumerate() {
            let distance = distance(row);
            let place = nearest.partition_point(|(other, _)| *other <= distance);
            if place < NEAR {
                nearest.copy_within(place..NEAR - 1, place + 1);
                nearest[place] = (distance, index as u16);
            }
        }
        nearest.map(|(_, row)| row)
    }

    /// The row of this number.
    #[inline(always)]
    pub(super) fn row(&self, index: u16) -> &[f32; D] {
        &self.rows[usize::from(index)]
    }

    /// The row of least weighted distance to some values, among those near to their levels, and that distance.
    #[inline(always)]
    pub(super) fn nearest(&self, values: &[f32; D], weights: &[f32; D]) -> (f32, u16) {
        let mut point = 0;
        for value in values.iter().rev() {
            let level =
                self.midpoints.iter().fold(0, |level, midpoint| level + usize::from(value > midpoint));
            point = point * (MIDPOINTS + 1) + level;
        }
        let mut best = (f32::INFINITY, 0);
        for &index in &self.near[point] {
            let row = self.row(index);
            let distance = sum::<D>(std::array::from_fn(|i| {
                let off = row[i] - values[i];
                weights[i] * off * off
            }));
            if distance < best.0 {
                best = (distance, index);
            }
        }
        best
    }

    /// Encodes a block in groups of `group` values with 4-bit codes; `stored` times the unit is stored as f16. With
    /// `even` the number of signs in each byte must be even.
    pub(super) fn encode(
        &self,
        values: &[f32; 256],
        importance: Option<&[f32; 256]>,
        group: usize,
        stored: f32,
        even: bool,
    ) -> Result<(CodedBlock, [u8; 32]), TooLarge> {
        let weights = weights(values, importance);
        let (signs, magnitudes) = split_signs(values, &weights, even);
        let block = self.encode_groups(&magnitudes, &weights, &Scales { group, top_code: 15.0, stored })?;
        Ok((block, signs))
    }
}

impl<const D: usize, const MIDPOINTS: usize> Rows for Codebook<D, MIDPOINTS> {
    const RUN: usize = D;

    fn top(&self) -> f32 {
        self.levels.last().copied().unwrap_or(1.0)
    }

    /// The largest value gets the largest magnitude, or one that is a little off.
    fn candidates(&self, magnitudes: &[f32], _weights: &[f32]) -> impl Iterator<Item = f32> {
        let largest = largest(magnitudes).abs();
        let top = self.top();
        let near_top = CANDIDATES.map(move |step| largest / (top * (1.0 + STEP * f32::from(step))));
        // Values that are all alike are a row of low magnitudes more often than one of the highest.
        near_top.chain([self.levels[0], self.levels[MIDPOINTS / 2]].map(move |level| largest / level))
    }

    fn rows_at(&self, magnitudes: &[f32], weights: &[f32], scale: f32, rows: &mut [u16]) -> [f32; 2] {
        let inverse = reciprocal(scale);
        let runs = magnitudes.as_chunks::<D>().0.iter().zip(weights.as_chunks::<D>().0);
        let mut sums = [0.0; 2];
        for ((magnitudes, weights), row) in runs.zip(rows) {
            *row = self.nearest(&magnitudes.map(|magnitude| magnitude * inverse), weights).1;
            let q = self.row(*row);
            sums[0] += sum::<D>(std::array::from_fn(|i| weights[i] * q[i] * magnitudes[i]));
            sums[1] += sum::<D>(std::array::from_fn(|i| weights[i] * q[i] * q[i]));
        }
        sums
    }
}

/// How the scales of a block are stored.
pub(super) struct Scales {
    /// Values that share a code.
    pub(super) group: usize,
    /// The largest code.
    pub(super) top_code: f32,
    /// What times the unit is stored as f16.
    pub(super) stored: f32,
}

/// What can stand for the values of a group, given a scale.
pub(super) trait Rows {
    /// Values that a row stands for.
    const RUN: usize;

    /// The largest value in a row.
    fn top(&self) -> f32;

    /// Scales of a group that are worth trying.
    fn candidates(&self, values: &[f32], weights: &[f32]) -> impl Iterator<Item = f32>;

    /// The rows that stand for values at a scale, with Σwqx and Σwqq over them.
    fn rows_at(&self, values: &[f32], weights: &[f32], scale: f32, rows: &mut [u16]) -> [f32; 2];

    /// The scale of a group that leaves the least weighted error.
    fn scale(&self, values: &[f32], weights: &[f32]) -> f32 {
        let mut rows = [0; MOST_ROWS];
        let (mut best, mut most) = (largest(values).abs() / self.top(), 0.0);
        let mut attempt = |scale: f32| {
            let [sum_qx, sum_qq] = self.rows_at(values, weights, scale, &mut rows);
            // The error is the values' square sum less this.
            let gain = sum_qx * sum_qx / sum_qq;
            if sum_qx > 0.0 && gain > most {
                most = gain;
                best = sum_qx / sum_qq;
            }
            best
        };
        let mut found = 0.0;
        for scale in self.candidates(values, weights) {
            found = attempt(scale);
        }
        attempt(found)
    }

    /// Encodes a block.
    fn encode_groups(
        &self,
        values: &[f32; 256],
        weights: &[f32; 256],
        &Scales { group, top_code, stored }: &Scales,
    ) -> Result<CodedBlock, TooLarge> {
        let mut block = CodedBlock { d: [0; 2], codes: [0; 16], rows: [0; MOST_ROWS] };
        let mut scales = [0.0; 16];
        let groups = || values.chunks(group).zip(weights.chunks(group));
        for (scale, (values, weights)) in scales.iter_mut().zip(groups()) {
            *scale = self.scale(values, weights);
        }
        let largest = scales.iter().copied().fold(0.0, f32::max);
        let (mut d, mut unit) = half(largest / (2.0 * top_code + 1.0) * stored)?;
        for _ in 0..PASSES {
            unit /= stored;
            let (mut total_qx, mut total_qq) = (0.0, 0.0);
            let runs = block.rows.chunks_mut(group / Self::RUN).zip(&mut block.codes).zip(scales);
            for ((values, weights), ((rows, chosen), scale)) in groups().zip(runs) {
                let middle = (0.5 * (scale * reciprocal(unit) - 1.0)).round().clamp(0.0, top_code);
                let mut best = (f32::INFINITY, 0.0, 0.0);
                for code in [middle, middle - 1.0, middle + 1.0] {
                    if !(0.0..=top_code).contains(&code) {
                        continue;
                    }
                    let (factor, mut tried) = (2.0 * code + 1.0, [0; MOST_ROWS]);
                    let [sum_qx, sum_qq] = self.rows_at(values, weights, unit * factor, &mut tried);
                    let (qx, qq) = (factor * sum_qx, factor * factor * sum_qq);
                    // The error less the values' square sum.
                    let error = unit * (unit * qq - 2.0 * qx);
                    if error < best.0 {
                        best = (error, qx, qq);
                        *chosen = code as u8;
                        rows.copy_from_slice(&tried[..rows.len()]);
                    }
                }
                total_qx += best.1;
                total_qq += best.2;
            }
            if total_qx > 0.0 {
                (d, unit) = half(total_qx / total_qq * stored)?;
            }
        }
        block.d = d;
        Ok(block)
    }
}

/// The sum of 4 or 8 numbers, halves first, so that it is done in lanes.
#[inline(always)]
pub(super) fn sum<const D: usize>(mut numbers: [f32; D]) -> f32 {
    let mut left = D;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            numbers[i] += numbers[i + left];
        }
    }
    numbers[0]
}

/// How often the codes are chosen and the unit fitted to them.
const PASSES: usize = 2;
/// Candidates for the scale of a group, in steps from the one that gives its largest value the largest magnitude.
const CANDIDATES: std::ops::RangeInclusive<i8> = -6..=9;
const STEP: f32 = 0.04;

/// A block as it will be stored, but for the order of its bits.
pub(super) struct CodedBlock {
    /// What is stored of the unit.
    pub(super) d: [u8; 2],
    /// The code of scale of each group.
    pub(super) codes: [u8; 16],
    /// The row of each run of values.
    pub(super) rows: [u16; MOST_ROWS],
}

/// Signs, eight a byte (set: negative), and magnitudes. Where the number of signs must be even and is not, that of the value
/// which matters least is wrong, and its magnitude negative: the nearer to zero the magnitude that stands for it, the better.
fn split_signs(values: &[f32; 256], weights: &[f32; 256], even: bool) -> ([u8; 32], [f32; 256]) {
    let (mut signs, mut magnitudes) = ([0; 32], values.map(f32::abs));
    let eights = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
    for ((values, weights), (signs, magnitudes)) in
        eights.zip(signs.iter_mut().zip(magnitudes.as_chunks_mut::<8>().0))
    {
        *signs = (0..8).fold(0, |bits, i| bits | u8::from(values[i] < 0.0) << i);
        if even && signs.count_ones() % 2 == 1 {
            let matters = |i: &usize| weights[*i] * values[*i] * values[*i];
            let least = (0..8).min_by(|a, b| matters(a).total_cmp(&matters(b))).unwrap_or(0);
            *signs ^= 1 << least;
            magnitudes[least] = -magnitudes[least];
        }
    }
    (signs, magnitudes)
}
