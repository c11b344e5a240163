//! xIELU, a feed-forward layer's non-linearity with learned numbers: a parabola above zero, an exponential below, and a
//! slope that both have.

use super::{EXP_HIGH, EXP_LN2_HIGH, EXP_LN2_LOW, EXP_LOW, EXP_POLYNOMIAL, softplus};

/// What a layer has learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xielu {
    /// The factor of x² above zero.
    pub above: f32,
    /// The factor of e^x - 1 - x below zero.
    pub below: f32,
    /// The slope at zero.
    pub slope: f32,
}

impl Xielu {
    /// Of the numbers as files have them, of which softplus makes positive ones.
    pub fn new(alpha_positive: f32, alpha_negative: f32, beta: f32) -> Xielu {
        Xielu { above: softplus(alpha_positive), below: beta + softplus(alpha_negative), slope: beta }
    }
}

/// `above · max(x, 0)² + below · (e^min(x, 0) - 1 - min(x, 0)) + slope · x`.
#[inline(always)]
pub fn xielu(x: f32, numbers: Xielu) -> f32 {
    // NaN passes through comparisons that it fails.
    let positive = if x < 0.0 { 0.0 } else { x };
    let negative = if x > 0.0 { 0.0 } else { x };
    let bent = exp_m1(negative) - negative;
    numbers.below.mul_add(bent, (numbers.above * positive).mul_add(positive, numbers.slope * x))
}

/// `e^x - 1` by the steps of [`exp`](super::exp), as 2^n · (e^r - 1) + (2^n - 1): near zero, where n is 0, nothing is
/// cancelled.
#[inline(always)]
pub fn exp_m1(x: f32) -> f32 {
    let x = x.clamp(EXP_LOW, EXP_HIGH);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-EXP_LN2_LOW, n.mul_add(-EXP_LN2_HIGH, x));
    let mut p = EXP_POLYNOMIAL[0];
    for &c in &EXP_POLYNOMIAL[1..EXP_POLYNOMIAL.len() - 1] {
        p = p.mul_add(r, c);
    }
    let power = f32::from_bits(((n as i32 + 127) as u32) << 23);
    power.mul_add(p * r, power - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_less_one_are_exact_near_zero_too() {
        for step in 0..400_000 {
            let x = -2e-4 * step as f32;
            for x in [x, x * 1e-4, x * 1e-8] {
                let truth = f64::from(x).exp_m1();
                let off = (f64::from(exp_m1(x)) - truth).abs();
                assert!(off <= 4.0 * f64::from(f32::EPSILON) * truth.abs(), "{x}: {off}");
            }
        }
        assert!(exp_m1(f32::NAN).is_nan());
    }

    #[test]
    fn both_sides_follow_the_definition() {
        let numbers = Xielu::new(0.8, 0.7, 0.5);
        let soft = |x: f64| x.exp().ln_1p();
        for step in -4000..4000 {
            let x = f64::from(step) * 1e-2;
            let (above, below) = (soft(0.8), 0.5 + soft(0.7));
            let truth = if x > 0.0 { above * x * x + 0.5 * x } else { below * (x.exp_m1() - x) + 0.5 * x };
            let off = (f64::from(xielu(x as f32, numbers)) - truth).abs();
            assert!(off <= 1e-6 * (1.0 + truth.abs()), "{x}: {off}");
        }
    }
}
