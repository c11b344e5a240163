//! Choosing the next token of a row from its logits, in arithmetic that any device does alike.
//!
//! The order is: min-p, top-k, top-p, then temperature and the draw; each filter sees the probabilities of what
//! the ones before it left, at temperature 1. A probability is a whole number in units of 2^-40 of the best
//! one's. It comes from one subtraction and one multiplication of f32, which are rounded alike everywhere,
//! and integers from there on; so sums are exact in any order, and a device that follows the rule chooses the
//! same tokens as the host. [`choose`] is the plain definition.

use std::cmp::Ordering;

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Divides the scores before drawing; 0 takes the best token.
    pub temperature: f32,
    /// Keeps only this many of the best tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest best tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Drops tokens less probable than this share of the best one's probability; 0 keeps all.
    pub min_p: f32,
}

impl Rule {
    /// Always the best token, of equals the first.
    pub const GREEDY: Rule = Rule { temperature: 0.0, top_k: 1, top_p: 1.0, min_p: 0.0 };

    /// Whether it always takes the best token.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

/// Instead of a token, when every logit is negative infinity or not a number.
pub const NO_TOKEN: u32 = u32::MAX;

/// Bits of the fraction of an exponent.
pub const FRACTION_BITS: u32 = 24;

/// Exponents are not larger than this: 2^-41 of the best one's weight is nothing.
pub const LARGEST_EXPONENT: f32 = (41u32 << FRACTION_BITS) as f32;

/// ln 2 in units of 2^-32.
pub const LN_2: u32 = 2_977_044_472;

/// A third in units of 2^-32.
pub const THIRD: u32 = 1_431_655_765;

/// 2^(-i/64) in units of 2^-31.
#[rustfmt::skip]
pub const POWERS: [u32; 64] = [
    0x8000_0000, 0x7e9f_0606, 0x7d41_d96e, 0x7be8_6fba, 0x7a92_be8b, 0x7940_bb9e, 0x77f2_5cce, 0x76a7_980f,
    0x7560_6374, 0x741c_b528, 0x72dc_8374, 0x719f_c4b9, 0x7066_6f76, 0x6f30_7a41, 0x6dfd_dbcc, 0x6cce_8ae1,
    0x6ba2_7e65, 0x6a79_ad56, 0x6954_0ec9, 0x6831_99ed, 0x6712_460b, 0x65f6_0a7f, 0x64dc_dec3, 0x63c6_ba64,
    0x62b3_9509, 0x61a3_666d, 0x6096_2665, 0x5f8b_ccdb, 0x5e84_51d0, 0x5d7f_ad59, 0x5c7d_d7a4, 0x5b7e_c8f2,
    0x5a82_799a, 0x5988_e209, 0x5891_fac1, 0x579d_bc57, 0x56ac_1f75, 0x55bd_1cdb, 0x54d0_ad5a, 0x53e6_c9da,
    0x52ff_6b55, 0x521a_8ad7, 0x5138_2182, 0x5058_2888, 0x4f7a_9930, 0x4e9f_6cd4, 0x4dc6_9cdd, 0x4cf0_22ca,
    0x4c1b_f829, 0x4b4a_169c, 0x4a7a_77d4, 0x49ad_1598, 0x48e1_e9ba, 0x4818_ee22, 0x4752_1cc6, 0x468d_6fae,
    0x45ca_e0f2, 0x450a_6abb, 0x444c_0740, 0x438f_b0cb, 0x42d5_61b4, 0x421d_1462, 0x4166_c34c, 0x40b2_68fa,
];

/// What a difference of scores is multiplied with at a temperature, to be an exponent of 2 in units of 2^-24.
pub fn factor(temperature: f32) -> f32 {
    let unit = f64::from(1u32 << FRACTION_BITS);
    (std::f64::consts::LOG2_E * unit / f64::from(temperature)) as f32
}

/// How far below the best score min-p lets a token be, as a number to add to the best; none when it is off.
pub fn lowest_difference(min_p: f32) -> Option<f32> {
    (min_p > 0.0).then(|| f64::from(min_p).ln() as f32)
}

/// The upper half of a product.
#[inline]
fn high(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// 2^-(fraction / 2^24) in units of 2^-31, within 2^-30 of it; it never rises with the fraction.
#[inline]
fn power(fraction: u32) -> u32 {
    // Below 1/64 the power is 1 - s, with s = u - u²/2 + u³/6 and u the fraction's part · ln 2.
    let u = high((fraction & 0x3_ffff) << 8, LN_2);
    let half = u >> 1;
    let s = u - high(u, half - high(half, high(u, THIRD)));
    let whole = POWERS[(fraction >> 18) as usize & 63];
    whole - high(whole, s)
}

/// The probability of a score in units of 2^-40 of the best score's, at the temperature of the factor.
#[inline]
pub fn weight(score: f32, best: f32, factor: f32) -> u64 {
    // The same score may be infinity, whose difference from itself is no number.
    let difference = if score == best { 0.0 } else { (best - score) * factor };
    let exponent = difference.min(LARGEST_EXPONENT) as u32;
    let fraction = exponent & ((1 << FRACTION_BITS) - 1);
    (u64::from(power(fraction)) << 9) >> (exponent >> FRACTION_BITS)
}

/// A share in units of 2^-32, at least one; none when it is everything.
pub fn share_units(p: f32) -> Option<u32> {
    (p < 1.0).then(|| ((f64::from(p) * 4_294_967_296.0) as u32).max(1))
}

/// `units` 2^-32ths of a sum of weights, rounded up, and at least one unit.
pub fn share(total: u64, units: u32) -> u64 {
    let product = u128::from(total) * u128::from(units);
    (product.div_ceil(1 << 32) as u64).max(1)
}

/// Random bits as a number below `sum`.
pub fn scaled(random: u64, sum: u64) -> u64 {
    ((u128::from(random) * u128::from(sum)) >> 64) as u64
}

/// The token that a rule chooses. Of equal scores the lower token comes first; negative infinity and what is
/// not a number are never chosen, positive infinity wins over every finite logit.
pub fn choose(logits: &[f32], rule: &Rule, random: u64) -> u32 {
    let scores = logits.iter().copied().zip(0u32..);
    let mut list: Vec<(f32, u32)> = scores.filter(|(score, _)| *score > f32::NEG_INFINITY).collect();
    list.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1)));
    let Some(&(best, first)) = list.first() else { return NO_TOKEN };
    if rule.is_greedy() {
        return first;
    }
    if let Some(difference) = lowest_difference(rule.min_p) {
        list.retain(|(score, _)| *score >= best + difference);
    }
    if rule.top_k > 0 {
        list.truncate(rule.top_k);
    }
    let weights = |list: &[(f32, u32)], temperature: f32| -> Vec<u64> {
        list.iter().map(|(score, _)| weight(*score, best, factor(temperature))).collect()
    };
    if let Some(units) = share_units(rule.top_p) {
        let weights = weights(&list, 1.0);
        let target = share(weights.iter().sum(), units);
        let mut before = 0;
        let kept = weights.iter().take_while(|weight| {
            let kept = before < target;
            before += **weight;
            kept
        });
        let kept = kept.count();
        list.truncate(kept);
    }
    // The drawn one is where the sum of weights, by token, passes the random number.
    list.sort_by_key(|(_, token)| *token);
    let weights = weights(&list, rule.temperature);
    let drawn = scaled(random, weights.iter().sum());
    let mut sum = 0;
    let passed = weights.iter().position(|weight| {
        sum += weight;
        sum > drawn
    });
    passed.map_or(first, |index| list[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_close_and_never_rise() {
        let mut before = u32::MAX;
        for fraction in 0..1u32 << FRACTION_BITS {
            let power = power(fraction);
            assert!(power < before, "{fraction}");
            before = power;
            if fraction % 1009 == 0 {
                let truth = (-f64::from(fraction) / f64::from(1u32 << 24)).exp2() * f64::from(1u32 << 31);
                assert!((f64::from(power) - truth).abs() < 4.0, "{fraction}: {power} {truth}");
            }
        }
        assert_eq!(power(0), 1 << 31);
        // The next power of two goes on below the last fraction.
        assert!(u64::from(before) > 1 << 30);
    }

    #[test]
    fn weights_are_probabilities() {
        for temperature in [0.1, 1.0, 1.7] {
            for i in 0..3000 {
                let below = i as f32 * 0.01;
                let truth = (-f64::from(below) / f64::from(temperature)).exp();
                let found = weight(2.0 - below, 2.0, factor(temperature)) as f64 / (1u64 << 40) as f64;
                // The difference of f32 scores, and a weight is whole.
                assert!(
                    (found - truth).abs() < 1e-5 * truth + 1e-12,
                    "{below} {temperature}: {found} {truth}"
                );
            }
        }
        let one = factor(1.0);
        assert_eq!(weight(f32::INFINITY, f32::INFINITY, one), 1 << 40);
        assert_eq!(weight(3.0, f32::INFINITY, one), 0);
        assert_eq!(weight(-1e30, 1e30, one), 0);
        assert_eq!(weight(1.0, 2.0, factor(1e-30)), 0);
    }

    #[test]
    fn shares_are_rounded_up() {
        assert_eq!(share_units(1.0), None);
        assert_eq!(share(1 << 40, share_units(0.5).unwrap()), 1 << 39);
        assert_eq!(share(3, share_units(0.5).unwrap()), 2);
        assert_eq!(share(7, share_units(0.0).unwrap()), 1);
        assert_eq!(share(u64::MAX, u32::MAX), u64::MAX - u64::MAX / (1 << 32));
        assert_eq!((scaled(0, 9), scaled(u64::MAX, 9)), (0, 8));
    }

    #[test]
    fn rules_choose_what_they_say() {
        let nan = f32::NAN;
        let greedy = |logits: &[f32]| choose(logits, &Rule::GREEDY, 0);
        assert_eq!(greedy(&[1.0, 3.0, 3.0, nan]), 1);
        assert_eq!(greedy(&[nan, f32::NEG_INFINITY]), NO_TOKEN);
        assert_eq!(greedy(&[]), NO_TOKEN);
        assert_eq!(greedy(&[-0.0, 0.0]), 0);
        // Probabilities 1/8, 1/2, 1/8, 1/4: by token the sums end at 1/8, 5/8, 6/8, 1.
        let logits = [1f32, 4.0, 1.0, 2.0].map(f32::ln);
        let plain = Rule { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 };
        let at = |rule: Rule, eighths: f64| choose(&logits, &rule, (eighths / 8.0 * 2f64.powi(64)) as u64);
        let draws = |rule: Rule| [0.5, 1.5, 4.5, 5.5, 6.5, 7.5].map(|eighths| at(rule, eighths));
        assert_eq!(draws(plain), [0, 1, 1, 2, 3, 3]);
        assert_eq!(draws(Rule { top_k: 2, ..plain }), [1, 1, 1, 3, 3, 3]);
        assert_eq!(draws(Rule { min_p: 0.4, ..plain }), [1, 1, 1, 3, 3, 3]);
        assert_eq!(draws(Rule { top_p: 0.5, ..plain }), [1; 6]);
        // Two eighths are missing after two tokens: of the equals the first is kept.
        assert_eq!(draws(Rule { top_p: 0.8, ..plain }), [0, 1, 1, 1, 3, 3]);
        assert_eq!(draws(Rule { temperature: 0.01, ..plain }), [1; 6]);
    }
}
