//! Attention in halves, as the matrix units of a GPU compute it: scores and values are products of f16 that are summed
//! in f32, the softmax between them is of f32.
//!
//! Positions are cut into spans of a page. What a span gives does not depend on others, and spans are merged in ascending
//! order, so that it does not matter which of them are computed together.

use std::ops::Range;

use half::f16;

use super::halves::{STEP, chain_of_units};
use super::{PAGE, faded, half_row, unit};

/// The most dimensions of a key whose scores are products of halves: what a workgroup has room for of queries, on every device
/// with units that is known.
pub const HALF_DIMENSIONS: usize = 640;

/// What scores are multiplied with, so that weights are powers of two: the queries are, before they become halves.
pub fn half_scale(scale: f32) -> f32 {
    scale * std::f32::consts::LOG2_E
}

/// What a head does with its scores.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scoring {
    /// The factor of scores.
    pub scale: f32,
    /// What bounds them, see [`half_soft_cap`].
    pub soft_cap: Option<f32>,
    /// What they lose for every position of distance, and the row's own position.
    pub fading: Option<(f32, usize)>,
    /// A score that has no value, see [`half_sink`].
    pub sink: Option<f32>,
}

/// What a query head makes of the values of the positions that it sees: `out = Σ softmax(query · key · scale) · value`.
/// `key` and `value` are those of a position.
pub fn attend_halves<'a>(
    query: &[f32],
    scoring: Scoring,
    visible: Range<usize>,
    key: impl Fn(usize) -> &'a [f16],
    value: impl Fn(usize) -> &'a [f16],
) -> Vec<f32> {
    let Scoring { scale, soft_cap, fading, sink } = scoring;
    let scaled: Vec<f32> = query.iter().map(|x| x * half_scale(scale)).collect();
    let query = half_row(&scaled);
    let dimensions = value(visible.start).len();
    // Where nothing is done to scores they are products until they are weights. The factor is a power of two.
    let is_done = soft_cap.is_some() || fading.is_some();
    let (before, factor) = if is_done { (query.factor, 1.0) } else { (1.0, query.factor) };
    let score = |position: usize| {
        let score = chain_of_units(&query.values, key(position)) * before;
        let score = soft_cap.map_or(score, |cap| half_soft_cap(score, cap));
        fading.map_or(score, |(slope, own)| faded(score, half_scale(slope), own, position))
    };
    let (mut largest, mut sum, mut total) = (0.0f32, 0.0f32, vec![0.0f32; dimensions]);
    if let Some(sink) = sink {
        (largest, sum) = (half_sink(sink), 1.0);
    }
    let first = visible.start / PAGE * PAGE;
    for start in (first..visible.end).step_by(PAGE) {
        let seen = visible.start.max(start)..visible.end.min(start + PAGE);
        let of_span = seen.start - start..seen.end - start;
        let scores: Vec<f32> = seen.clone().map(score).collect();
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max) * factor;
        let mut weights = [0.0f32; PAGE];
        for (weight, score) in weights[of_span.clone()].iter_mut().zip(&scores) {
            *weight = power(score.mul_add(factor, -highest));
        }
        let span_sum = sum_of_lanes(&weights);
        let weights = weights.map(f16::from_f32);
        let (before, after) = if start == first && sink.is_none() {
            (largest, sum) = (highest, span_sum);
            (0.0, 1.0)
        } else {
            let most = largest.max(highest);
            let (before, after) = (power(largest - most), power(highest - most));
            (largest, sum) = (most, sum.mul_add(before, span_sum * after));
            (before, after)
        };
        for (d, total) in total.iter_mut().enumerate() {
            let mut column = [f16::ZERO; PAGE];
            column[of_span.clone()]
                .iter_mut()
                .zip(seen.clone())
                .for_each(|(column, p)| *column = value(p)[d]);
            *total = total.mul_add(before, steps_of_units(&weights, &column) * after);
        }
    }
    let inverse = 1.0 / sum;
    total.iter().map(|total| total * inverse).collect()
}

/// A sink among scores that are multiplied with log2(e). Its last bit is cleared, so that no compiler can make one
/// rounding of this product and of the differences that follow.
pub fn half_sink(sink: f32) -> f32 {
    f32::from_bits(half_scale(sink).to_bits() & !1)
}

/// `cap · tanh(score / cap)` of scores that are multiplied with log2(e): of the magnitude `cap · (1 - t) / (1 + t)` with
/// `t = 2^(-2·score/cap)`, whose quotient is by Newton's steps, and then its sign. Within 2·10⁻⁶ of the cap.
pub fn half_soft_cap(score: f32, cap: f32) -> f32 {
    let t = power_of_product(-score.abs(), 2.0 / cap);
    ((1.0 - t) * reciprocal(1.0 + t) * half_scale(cap)).copysign(score)
}

/// One over a number from one to two, within 1.2·10⁻⁷ of it: a parabola, and two steps of Newton's.
fn reciprocal(x: f32) -> f32 {
    let near = RECIPROCAL_POLYNOMIAL.iter().fold(0.0f32, |p, c| p.mul_add(x, *c));
    let nearer = (-x).mul_add(near, 1.0).mul_add(near, near);
    (-x).mul_add(nearer, 1.0).mul_add(nearer, nearer)
}

/// 1/x between 1 and 2, within a hundredth of it: the coefficient of the highest power first.
const RECIPROCAL_POLYNOMIAL: [f32; 3] = [0.323_232_32, -1.454_545_5, 2.121_212];

/// 2^x for what is not above zero, within 3·10⁻⁶ of it: far below what weights lose as halves. Exact where x is whole.
/// What is below 2⁻¹²⁶ counts as about that; what is not a number stays so.
fn power(x: f32) -> f32 {
    power_of_product(x, 1.0)
}

/// 2^(x·y), the same way: their product is not rounded but to find its whole part.
fn power_of_product(x: f32, y: f32) -> f32 {
    let n = (x * y).round_ties_even();
    let rest = x.mul_add(y, -n);
    let p = POWER_POLYNOMIAL.iter().fold(0.0f32, |p, c| p.mul_add(rest, *c));
    p * f32::from_bits(((n as i32).max(-126) + 127).cast_unsigned() << 23)
}

/// 2^x between -1/2 and 1/2: the coefficient of the highest power first.
const POWER_POLYNOMIAL: [f32; 5] = [0.009_582_853, 0.055_906_426, 0.240_240_99, 0.693_124_2, 1.0];

/// What units make of a span: sixteen neighbouring positions in each step.
fn steps_of_units(weights: &[f16; PAGE], values: &[f16; PAGE]) -> f32 {
    let (weights, values) = (weights.as_chunks::<STEP>().0, values.as_chunks::<STEP>().0);
    weights.iter().zip(values).fold(0.0, |sum, (weights, values)| unit(sum, *weights, *values))
}

/// The sum of a span's weights: four lanes each add up two neighbouring ones of every eight, four at a time.
fn sum_of_lanes(weights: &[f32; PAGE]) -> f32 {
    let lane = |lane: usize| {
        let fours = weights.chunks(STEP).map(|step| (&step[2 * lane..], &step[2 * lane + 8..]));
        fours.fold(0.0f32, |sum, (near, far)| sum + ((near[0] + near[1]) + (far[0] + far[1])))
    };
    (lane(0) + lane(1)) + (lane(2) + lane(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64) -> f32 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Against sums in f64: what queries and weights lose as halves is all that may differ.
    #[test]
    fn results_are_near_the_truth() {
        let mut seed = 5;
        let (dim, value_dim) = (40, 24);
        let plain = Scoring { scale: 0.3, ..Scoring::default() };
        let capped = Scoring { soft_cap: Some(2.5), ..plain };
        let fading = Scoring { fading: Some((0.05, 70)), sink: Some(-0.7), ..plain };
        let all = Scoring { soft_cap: Some(4.0), fading: Some((0.01, 150)), sink: Some(0.4), ..plain };
        let cases = [
            (0..1, 1.0, plain),
            (0..7, 30.0, plain),
            (0..64, 1.0, Scoring { sink: Some(1.5), ..plain }),
            (0..65, 4.0, plain),
            (0..200, 0.1, plain),
            (3..4, 1.0, plain),
            (63..130, 1.0, Scoring { sink: Some(-2.0), ..plain }),
            (100..120, 4.0, capped),
            (64..128, 1.0, fading),
            (70..200, 1.0, all),
        ];
        for (visible, size, scoring) in cases {
            let mut rows = |dim: usize| -> Vec<Vec<f16>> {
                let row = |_| (0..dim).map(|_| f16::from_f32(random(&mut seed) * size)).collect();
                (0..visible.end).map(row).collect()
            };
            let (keys, values) = (rows(dim), rows(value_dim));
            let query: Vec<f32> = (0..dim).map(|_| random(&mut seed)).collect();
            let got = attend_halves(&query, scoring, visible.clone(), |p| &keys[p], |p| &values[p]);
            let score = |position: usize| -> f64 {
                let products = keys[position].iter().zip(&query).map(|(k, q)| k.to_f64() * f64::from(*q));
                let score = products.sum::<f64>() * f64::from(scoring.scale);
                let score =
                    scoring.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
                scoring
                    .fading
                    .map_or(score, |(slope, own)| score - f64::from(slope) * own.abs_diff(position) as f64)
            };
            let weights: Vec<f64> = visible.clone().map(|position| score(position).exp()).collect();
            let sum = weights.iter().sum::<f64>() + scoring.sink.map_or(0.0, |sink| f64::from(sink).exp());
            for (d, got) in got.iter().enumerate() {
                let all = weights.iter().zip(&values[visible.clone()]).map(|(w, v)| w * v[d].to_f64());
                let truth = all.sum::<f64>() / sum;
                // A score is wrong by what its terms are, 2⁻¹² of each.
                let most =
                    f64::from(size) * (2f64.powi(-11) + dim as f64 * f64::from(size) * 0.3 * 2f64.powi(-12));
                assert!(
                    (f64::from(*got) - truth).abs() < most,
                    "{visible:?}, {scoring:?}, {d}: {got}, not {truth}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_seen() {
        let key = [f16::ONE; 8];
        let plain = Scoring { scale: 1.0, ..Scoring::default() };
        for scoring in [plain, Scoring { soft_cap: Some(3.0), ..plain }, Scoring { sink: Some(0.5), ..plain }]
        {
            let got = attend_halves(&[f32::NAN; 8], scoring, 0..3, |_| &key, |_| &key);
            assert!(got.iter().all(|x| x.is_nan()), "{scoring:?}");
        }
    }

    #[test]
    fn soft_caps_are_near_the_truth() {
        for cap in [0.7f32, 2.0, 50.0] {
            for i in -20_000..=20_000 {
                let score = i as f32 * cap * 5e-4;
                let truth = f64::from(cap) * (f64::from(score) / f64::from(cap)).tanh();
                let got = f64::from(half_soft_cap(half_scale(score), cap)) * std::f64::consts::LN_2;
                assert!((got - truth).abs() < 2e-6 * f64::from(cap), "{score}, {cap}: {got}, not {truth}");
            }
            assert_eq!(half_soft_cap(0.0, cap), 0.0);
        }
        assert!(half_soft_cap(f32::NAN, 1.0).is_nan());
    }

    #[test]
    fn reciprocals_are_near_the_truth() {
        for i in 0..=10_000 {
            let x = 1.0 + i as f32 * 1e-4;
            assert!((f64::from(reciprocal(x)) * f64::from(x) - 1.0).abs() < 1.2e-7, "{x}");
        }
    }

    /// A window that begins within a span leaves out what is before, as if it were not there.
    #[test]
    fn what_is_not_seen_has_no_part() {
        let mut seed = 9;
        let mut halves = || -> Vec<f16> { (0..16).map(|_| f16::from_f32(random(&mut seed))).collect() };
        let (mut keys, mut values) = (vec![], vec![]);
        for _ in 0..90 {
            keys.push(halves());
            values.push(halves());
        }
        let scoring = Scoring { scale: 1.0, ..Scoring::default() };
        let query = [0.3; 16];
        let attend = |keys: &[Vec<f16>], values: &[Vec<f16>]| {
            attend_halves(&query, scoring, 70..85, |p| &keys[p], |p| &values[p])
        };
        let truth = attend(&keys, &values);
        for position in (0..70).chain(85..90) {
            (keys[position], values[position]) = (vec![f16::INFINITY; 16], vec![f16::NAN; 16]);
        }
        assert_eq!(attend(&keys, &values), truth);
    }

    #[test]
    fn powers_are_near_the_truth() {
        for i in 0..100_000 {
            let x = -(i as f32) * 0.0012;
            let truth = f64::from(x).exp2();
            assert!((f64::from(power(x)) / truth - 1.0).abs() < 3.1e-6, "{x}");
        }
        assert_eq!([0.0, -1.0, -20.0].map(power), [1.0, 0.5, 2f32.powi(-20)]);
        assert!(power(-1e30) < 2e-38 && power(f32::NAN).is_nan());
    }

    #[test]
    fn every_weight_is_added_once() {
        let weights: [f32; PAGE] = std::array::from_fn(|i| i as f32);
        assert_eq!(sum_of_lanes(&weights), 63.0 * 32.0);
    }
}
