//! Attention in halves, as the matrix units of a GPU compute it: scores and values are products of f16 that are summed
//! in f32, the softmax between them is of f32.
//!
//! Positions are cut into spans of a page. What a span gives does not depend on others, and spans are merged in ascending
//! order, so that it does not matter which of them are computed together.

use half::f16;

use super::{PAGE, dot_halves, half_row};

/// The most dimensions of a key whose scores are products of halves: queries are kept in registers.
pub const HALF_DIMENSIONS: usize = 256;

/// What scores are multiplied with, so that weights are powers of two: the queries are, before they become halves.
pub fn half_scale(scale: f32) -> f32 {
    scale * std::f32::consts::LOG2_E
}

/// What a query head makes of the values of all positions that it sees: `out = Σ softmax(query · key · scale) · value`.
/// `key` and `value` are those of a position.
pub fn attend_halves<'a>(
    query: &[f32],
    scale: f32,
    visible: usize,
    key: impl Fn(usize) -> &'a [f16],
    value: impl Fn(usize) -> &'a [f16],
) -> Vec<f32> {
    let scaled: Vec<f32> = query.iter().map(|x| x * half_scale(scale)).collect();
    let query = half_row(&scaled);
    let dimensions = value(0).len();
    let (mut largest, mut sum, mut total) = (0.0f32, 0.0f32, vec![0.0f32; dimensions]);
    for start in (0..visible).step_by(PAGE) {
        let seen = start..visible.min(start + PAGE);
        let products: Vec<f32> = seen.clone().map(|p| dot_halves(&query.values, key(p))).collect();
        let highest = products.iter().copied().fold(f32::NEG_INFINITY, f32::max) * query.factor;
        let mut weights = [0.0f32; PAGE];
        for (weight, product) in weights.iter_mut().zip(&products) {
            *weight = power(product.mul_add(query.factor, -highest));
        }
        let span_sum = sum_of_lanes(&weights);
        let weights = weights.map(f16::from_f32);
        let (before, after) = if start == 0 {
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
            column.iter_mut().zip(seen.clone()).for_each(|(column, p)| *column = value(p)[d]);
            *total = total.mul_add(before, dot_halves(&weights, &column) * after);
        }
    }
    let inverse = 1.0 / sum;
    total.iter().map(|total| total * inverse).collect()
}

/// 2^x for what is not above zero, within 3·10⁻⁶ of it: far below what weights lose as halves. Exact where x is whole.
/// What is below 2⁻¹²⁶ counts as about that; what is not a number stays so.
fn power(x: f32) -> f32 {
    let n = x.round_ties_even();
    let rest = x - n;
    let p = POWER_POLYNOMIAL.iter().fold(0.0f32, |p, c| p.mul_add(rest, *c));
    p * f32::from_bits(((n as i32).max(-126) + 127).cast_unsigned() << 23)
}

/// 2^x between -1/2 and 1/2: the coefficient of the highest power first.
const POWER_POLYNOMIAL: [f32; 5] = [0.009_582_853, 0.055_906_426, 0.240_240_99, 0.693_124_2, 1.0];

/// The sum of a span's weights: four lanes each add up eight neighbouring ones of every 32, four at a time.
fn sum_of_lanes(weights: &[f32; PAGE]) -> f32 {
    let lane = |lane: usize| {
        let own = weights.chunks(4).skip(2 * lane);
        let fours =
            own.clone().step_by(8).zip(own.skip(1).step_by(8)).flat_map(|(first, second)| [first, second]);
        fours.fold(0.0f32, |sum, four| sum + ((four[0] + four[1]) + (four[2] + four[3])))
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
        for (visible, size) in [(1, 1.0), (7, 30.0), (64, 1.0), (65, 4.0), (200, 0.1)] {
            let mut rows = |dim: usize| -> Vec<Vec<f16>> {
                let row = |_| (0..dim).map(|_| f16::from_f32(random(&mut seed) * size)).collect();
                (0..visible).map(row).collect()
            };
            let (keys, values) = (rows(dim), rows(value_dim));
            let query: Vec<f32> = (0..dim).map(|_| random(&mut seed)).collect();
            let got = attend_halves(&query, 0.3, visible, |p| &keys[p], |p| &values[p]);
            let score = |key: &Vec<f16>| -> f64 {
                key.iter().zip(&query).map(|(k, q)| k.to_f64() * f64::from(*q) * 0.3).sum()
            };
            let weights: Vec<f64> = keys.iter().map(|key| score(key).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (d, got) in got.iter().enumerate() {
                let all = weights.iter().zip(&values).map(|(w, v)| w * v[d].to_f64());
                let truth = all.sum::<f64>() / sum;
                // A score is wrong by what its terms are, 2⁻¹² of each.
                let most =
                    f64::from(size) * (2f64.powi(-11) + dim as f64 * f64::from(size) * 0.3 * 2f64.powi(-12));
                assert!((f64::from(*got) - truth).abs() < most, "{visible}, {d}: {got}, not {truth}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_seen() {
        let key = [f16::ONE; 8];
        let got = attend_halves(&[f32::NAN; 8], 1.0, 3, |_| &key, |_| &key);
        assert!(got.iter().all(|x| x.is_nan()));
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
