//! Maxima, exponentials and their sums over a whole vocabulary, of IEEE operations alone: the loops vectorise
//! on any instruction set and give the same bits on all of them.

/// `e^x` for x of at most 0, within a few units in the last place; 0 below -87, where the result would not
/// be a normal number, and for NaN.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 · 2^23 rounds to an integer, which then sits in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with so few bits that its product with n is exact.
    const LN2_HIGH: f32 = 0.693_145_75;
    const LN2_LOW: f32 = 1.428_606_8e-6;
    let clamped = x.max(-87.0);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    // Taylor's polynomial: |r| is at most ln 2 / 2, so the eighth term is below 1e-8.
    let mut p = 1.0 / 5040.0;
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p * r + c;
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x >= -87.0 { p * power } else { 0.0 }
}

/// The largest value, passing over NaN; negative infinity when there is none.
pub(super) fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (groups, rest) = values.as_chunks::<16>();
    let mut lanes = [f32::NEG_INFINITY; 16];
    for group in groups {
        for (lane, &x) in lanes.iter_mut().zip(group) {
            *lane = larger(*lane, x);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

/// Σ e^(x - max) over all values that are numbers.
pub(super) fn sum_exp(values: &[f32], max: f32) -> f64 {
    let mut total = 0.0f64;
    // Blocks keep the f32 lanes short, so that their rounding stays far below the sum.
    for block in values.chunks(1024) {
        let (groups, rest) = block.as_chunks::<16>();
        let mut lanes = [0.0f32; 16];
        for group in groups {
            for (lane, x) in lanes.iter_mut().zip(group) {
                *lane += exp(x - max);
            }
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
        total += rest.iter().map(|x| f64::from(exp(x - max))).sum::<f64>();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_true_value() {
        for i in 0..870_000 {
            let x = i as f32 * -1e-4;
            let truth = f64::from(x).exp();
            assert!((f64::from(exp(x)) / truth - 1.0).abs() < 3e-7, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        for x in [-87.1, -1e30, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(exp(x), 0.0, "{x}");
        }
    }

    #[test]
    fn sums_match_a_plain_sum() {
        for n in [0usize, 1, 15, 16, 17, 1024, 1025, 50_001] {
            let values: Vec<f32> = (0..n).map(|i| ((i * 7919) % 1009) as f32 * -0.02).collect();
            let truth: f64 = values.iter().map(|&x| f64::from(x).exp()).sum();
            assert!((sum_exp(&values, 0.0) - truth).abs() <= 1e-6 * truth, "{n}");
        }
    }
}
