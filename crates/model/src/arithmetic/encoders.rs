//! What encoders add to the definition: the exact GELU, scores that fade with distance, the mean of rows.

use super::{exp, sum};

/// GELU as it is defined, x · Φ(x), with Φ by the error function: `max(x, 0) - |x| · tail(|x|)`, where the tail of the
/// normal distribution is `½ · p(t) · e^(-x²/2)` with `t = 1 / (1 + ERF_RATE · |x|)` (Abramowitz and Stegun 7.1.26,
/// at most 1.5e-7 off). Beyond [`TAIL_END`] the tail is what it is there, which is nothing beside x. NaN stays NaN.
#[inline(always)]
pub fn exact_gelu(x: f32) -> f32 {
    let magnitude = x.abs().min(TAIL_END);
    let t = 1.0 / ERF_RATE.mul_add(magnitude, 1.0);
    let mut p = TAIL_POLYNOMIAL[0];
    for &c in &TAIL_POLYNOMIAL[1..] {
        p = p.mul_add(t, c);
    }
    let tail = p * t * exp(-0.5 * magnitude * magnitude);
    let positive = if x < 0.0 { 0.0 } else { x };
    (-magnitude).mul_add(tail, positive)
}

/// Where the tail of [`exact_gelu`] is about as small as a normal number can be: with smaller ones processors are slow.
pub const TAIL_END: f32 = 12.7;
/// How fast t falls in [`exact_gelu`]: 0.3275911 / √2.
pub const ERF_RATE: f32 = 0.231_641_9;
/// Half of the polynomial of [`exact_gelu`], highest power first; a last factor t is left out.
pub const TAIL_POLYNOMIAL: [f32; 5] = [0.530_702_7, -0.726_576, 0.710_706_9, -0.142_248_37, 0.127_414_8];

/// A row less its mean.
pub fn center(x: &[f32], out: &mut [f32]) {
    let mean = sum(x) / x.len() as f32;
    for (out, x) in out.iter_mut().zip(x) {
        *out = x - mean;
    }
}

/// What a head's scores lose for every position of distance (ALiBi): a power of two for each head, from
/// 2^(-largest / heads) down to 2^-largest where their number is a power of two. Of other numbers the heads beyond
/// the last power of two lie between those before.
pub fn alibi_slope(largest: f32, head: usize, heads: usize) -> f32 {
    let whole = 1usize << heads.max(1).ilog2();
    let exponent = if head < whole {
        -f64::from(largest) * (head + 1) as f64 / whole as f64
    } else {
        -f64::from(largest) * (2 * (head - whole) + 1) as f64 / (2 * whole) as f64
    };
    exponent.exp2() as f32
}

/// A score that fades with distance: `score - slope · distance`, rounded once.
#[inline(always)]
pub fn faded(score: f32, slope: f32, position: usize, seen: usize) -> f32 {
    slope.mul_add(-(position.abs_diff(seen) as f32), score)
}

/// The mean of rows: each column is added up from the first row to the last, then multiplied with 1 / rows.
pub fn mean_of_rows<'a>(mut rows: impl Iterator<Item = &'a [f32]>, out: &mut [f32]) {
    let Some(first) = rows.next() else { return };
    out.copy_from_slice(first);
    let mut count = 1.0f32;
    for row in rows {
        out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        count += 1.0;
    }
    out.iter_mut().for_each(|sum| *sum *= 1.0 / count);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Φ(x) - ½ by its power series, in f64.
    fn phi(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / (2 * n) as f64;
            sum += term / (2 * n + 1) as f64;
        }
        0.5 + sum / (2.0 * std::f64::consts::PI).sqrt()
    }

    #[test]
    fn gelu_is_close_to_the_true_value() {
        let mut worst = 0.0f64;
        for i in -50_000..50_000 {
            let x = i as f32 * 1e-4;
            let truth = f64::from(x) * phi(f64::from(x));
            worst = worst.max((f64::from(exact_gelu(x)) - truth).abs());
        }
        assert!(worst < 5e-7, "{worst:e}");
        assert_eq!([0.0, 20.0, f32::INFINITY].map(exact_gelu), [0.0, 20.0, f32::INFINITY]);
        assert!([-20.0, -1e30, f32::NEG_INFINITY].map(exact_gelu).iter().all(|y| (-5e-36..=0.0).contains(y)));
        assert!(exact_gelu(f32::NAN).is_nan());
    }

    /// Numbers below the normal ones take a processor a hundred times as long.
    #[test]
    fn no_tail_is_below_the_normal_numbers() {
        for x in [TAIL_END - 0.1, TAIL_END, 13.0, 20.0, 1e30] {
            let tail = exact_gelu(-x) / -TAIL_END;
            assert!(tail.is_normal(), "{x}: {tail:e}");
        }
    }

    #[test]
    fn slopes_are_those_of_the_paper() {
        let slopes = |heads: usize| (0..heads).map(|head| alibi_slope(8.0, head, heads)).collect::<Vec<_>>();
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        // The first eight of twelve are those of eight, the others every second of sixteen.
        assert_eq!(slopes(12)[..8], slopes(8));
        let sixteen = slopes(16);
        assert_eq!(slopes(12)[8..], [sixteen[0], sixteen[2], sixteen[4], sixteen[6]]);
    }
}
