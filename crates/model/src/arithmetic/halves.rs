//! Linear layers in halves, as the matrix units of a GPU multiply them: operands of f16, sums of f32.
//!
//! A row of weights and a row of activations each become halves times a power of two ([`HalfRow`]), so that no number
//! leaves the range of f16. A unit adds sixteen products at a time to a sum ([`unit`]); 32 such steps are a segment of
//! 512 columns, and the segments are added up in ascending order ([`dot_halves`]).

use half::f16;

use super::IntegerRow;

/// Columns that a unit adds at a time.
pub const STEP: usize = 16;

/// Columns of two steps: of every eight neighbouring columns the first step takes four, the second the others.
pub const STEPS: usize = 2 * STEP;

/// Columns of a segment, whose steps are one chain.
pub const SEGMENT: usize = 512;

/// Activations that become halves together.
pub const HALF_GROUP: usize = 32;

/// Numbers as halves, each to be multiplied with a factor, which is a power of two or not a number.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfRow {
    /// The halves.
    pub values: Vec<f16>,
    /// What they are to be multiplied with.
    pub factor: f32,
}

/// The exponent that the largest of a row's numbers gets, and that of its scales where integers are what they multiply.
const TOP: i32 = 13;
const SCALE_TOP: i32 = 6;

/// The exponent that the largest of scales and mins gets, where there are both.
const TERM_TOP: i32 = 14;

/// What integers are multiples of as halves where there are mins: the smallest half there is. Scales are divided by it,
/// so that a weight is one fused multiply-add of an integer's bits.
const SMALLEST: f32 = 1.0 / (1 << 24) as f32;

/// Numbers below 2 to this count as 2 to this.
const LOWEST: i32 = -86;

/// The power of two that what is at most `largest` is divided by, so that `largest` gets the exponent `top`. Not a number
/// where it is infinite or none.
fn factor_for(largest: f32, top: i32) -> f32 {
    if !largest.is_finite() {
        return f32::NAN;
    }
    let exponent = (largest.abs().to_bits() >> 23) as i32 - 127;
    power_of_two(exponent.max(LOWEST) - top)
}

/// One over such a factor.
fn inverse(factor: f32) -> f32 {
    f32::from_bits((254 << 23) - factor.to_bits())
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// A row of floats, weights or a query: the largest is between 2¹³ and 2¹⁴. One with a number that is none, or
/// infinite, becomes zeros whose factor is not a number.
pub fn half_row(x: &[f32]) -> HalfRow {
    let factor = factor_for(largest(x.iter().copied()), TOP);
    if factor.is_nan() {
        return HalfRow { values: vec![f16::ZERO; x.len()], factor };
    }
    let up = inverse(factor);
    HalfRow { values: x.iter().map(|x| f16::from_f32(x * up)).collect(), factor }
}

/// A row of activations. Each group of 32 becomes halves as a row of its own would, so that the op that has computed a group
/// can write it; then all groups get the factor of the largest, which is exact but for what becomes subnormal and is
/// rounded once more.
pub fn half_activations(x: &[f32]) -> HalfRow {
    let groups: Vec<HalfRow> = x.chunks(HALF_GROUP).map(half_row).collect();
    let factor = largest(groups.iter().map(|group| group.factor));
    if factor.is_nan() {
        return HalfRow { values: vec![f16::ZERO; x.len()], factor };
    }
    let values = groups.iter().flat_map(|group| {
        let down = group.factor * inverse(factor);
        group.values.iter().map(move |half| f16::from_f32(half.to_f32() * down))
    });
    HalfRow { values: values.collect(), factor }
}

/// The largest magnitude by the order of bits, in which what is not a number is above infinity.
fn largest(x: impl Iterator<Item = f32>) -> f32 {
    f32::from_bits(x.map(|x| x.abs().to_bits()).max().unwrap_or(0))
}

/// What the integers of a row of weights are multiplied with, for each of its groups, as halves.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfTerms {
    /// The scale of each group: 2²⁴ times that where there are mins.
    pub scales: Vec<f16>,
    /// The mins, if there are any.
    pub mins: Vec<f16>,
    /// What weights are to be multiplied with.
    pub factor: f32,
}

/// Scales and mins of a row as halves, each rounded once: the largest is near the end of their range, whatever the
/// integers.
pub fn half_terms(row: IntegerRow) -> HalfTerms {
    let groups = row.block / row.group;
    let scale = |group: usize| row.scales[group / groups] * f32::from(row.factors[group]);
    let min = |group: usize| row.mins.get(group / groups).map(|min| min * f32::from(row.min_factors[group]));
    let (count, with_mins) = (row.factors.len(), !row.mins.is_empty());
    let (scale_of_one, top) = if with_mins { (1.0 / SMALLEST, TERM_TOP) } else { (1.0, SCALE_TOP) };
    let both = (0..count).flat_map(|group| [Some(scale(group) * scale_of_one), min(group)]).flatten();
    let factor = factor_for(largest(both), top);
    if factor.is_nan() {
        let zeros = |length| vec![f16::ZERO; length];
        return HalfTerms { scales: zeros(count), mins: zeros(if with_mins { count } else { 0 }), factor };
    }
    let up = inverse(factor);
    let half = |x: f32| f16::from_f32(x * up);
    HalfTerms {
        scales: (0..count).map(|group| half(scale(group) * scale_of_one)).collect(),
        mins: (0..count).filter_map(min).map(half).collect(),
        factor,
    }
}

/// A row of block-quantised weights: `integer · scale (+ min)` of the [`HalfTerms`] of its group, rounded once.
pub fn half_weights(row: IntegerRow) -> HalfRow {
    let HalfTerms { scales, mins, factor } = half_terms(row);
    let groups = row.integers.chunks(row.group).enumerate();
    let values = groups.flat_map(|(g, integers)| {
        let (scale, min) = (scales[g], mins.get(g).copied());
        integers.iter().map(move |integer| match min {
            Some(min) => fused(*integer, scale, min),
            // The product is exact in f32.
            None => f16::from_f32(f32::from(*integer) * scale.to_f32()),
        })
    });
    HalfRow { values: values.collect(), factor }
}

/// The numbers that the [`HalfTerms`] of a row stand for, which are not rounded to halves: what a table of embeddings
/// gives that is a matrix too.
pub fn half_values(row: IntegerRow) -> Vec<f32> {
    let HalfTerms { scales, mins, factor } = half_terms(row);
    let value = |(column, integer): (usize, &i8)| {
        let (group, integer) = (column / row.group, f32::from(*integer));
        let scale = scales[group].to_f32();
        let value = match mins.get(group) {
            Some(min) => integer.mul_add(scale * SMALLEST, min.to_f32()),
            None => integer * scale,
        };
        value * factor
    };
    row.integers.iter().enumerate().map(value).collect()
}

/// `integer · 2⁻²⁴ · scale + min`, rounded once, to the nearest and of two to the even one.
fn fused(integer: i8, scale: f16, min: f16) -> f16 {
    // Whole numbers of 2⁻⁴⁸ and of 2⁻²⁴.
    let whole = |half: f16| {
        let (whole, exponent) = parts_of_half(half);
        i128::from(whole) << (exponent + 14)
    };
    let sum = i128::from(integer) * whole(scale) + (whole(min) << 24);
    let size = sum.unsigned_abs();
    // Eleven bits are kept, or as many as there are down to 2⁻²⁴.
    let cut = (128 - size.leading_zeros()).saturating_sub(11).max(24);
    let (kept, rest, middle) = (size >> cut, size & ((1 << cut) - 1), 1 << (cut - 1));
    let up = rest > middle || rest == middle && kept % 2 == 1;
    let rounded = ((kept + u128::from(up)) << cut) as f64 * f64::from(SMALLEST) * f64::from(SMALLEST);
    f16::from_f64(if sum < 0 { -rounded } else { rounded })
}

/// The dot product of the halves alone; columns that are missing in the last step count as zeros.
pub fn dot_halves(weights: &[f16], x: &[f16]) -> f32 {
    assert_eq!(weights.len(), x.len());
    let segments = weights.chunks(SEGMENT).zip(x.chunks(SEGMENT));
    segments.fold(0.0, |total, (weights, x)| total + chain_of_units(weights, x))
}

/// The same of all columns in one chain.
pub(super) fn chain_of_units(weights: &[f16], x: &[f16]) -> f32 {
    let mut chain = 0.0;
    for (weights, x) in weights.chunks(STEPS).zip(x.chunks(STEPS)) {
        for step in 0..2 {
            chain = unit(chain, own_columns(weights, step), own_columns(x, step));
        }
    }
    chain
}

/// The columns of a step: four of every eight.
fn own_columns(columns: &[f16], step: usize) -> [f16; STEP] {
    std::array::from_fn(|i| columns.get(i / 4 * 8 + 4 * step + i % 4).copied().unwrap_or(f16::ZERO))
}

/// Bits below the largest exponent that products and the sum are cut to.
const BELOW: i32 = 25;

/// What a matrix unit adds up: sixteen products and the sum so far are cut, towards zero, to multiples of 2^(e-25),
/// where e is the largest of their exponents; they are added exactly, and the sum is cut to f32. The exponent of a
/// product is the sum of its operands', of which that of a subnormal half is -14; what is zero has none.
pub fn unit(sum: f32, weights: [f16; STEP], x: [f16; STEP]) -> f32 {
    let products = weights.into_iter().zip(x).map(|(w, x)| {
        let ((w, w_exponent), (x, x_exponent)) = (parts_of_half(w), parts_of_half(x));
        (w * x, w_exponent + x_exponent)
    });
    // Whole numbers of 2^(exponent - 20), and of 2^(exponent - 23).
    let products: [(i64, i32); STEP] = std::array::from_fn({
        let mut products = products;
        move |_| products.next().unwrap_or_default()
    });
    let sum_parts = parts_of_float(sum);
    let exponents = products.iter().chain([&sum_parts]).filter(|(whole, _)| *whole != 0);
    let Some(most) = exponents.map(|(_, exponent)| *exponent).max() else { return 0.0 };
    let cut = |(whole, exponent): (i64, i32), bits: i32| {
        let magnitude = (whole.unsigned_abs() << (BELOW - bits)).checked_shr((most - exponent) as u32);
        whole.signum() * magnitude.unwrap_or(0) as i64
    };
    let all: i64 = products.into_iter().map(|product| cut(product, 20)).sum::<i64>() + cut(sum_parts, 23);
    // Cut to 24 bits.
    let excess = (64 - all.unsigned_abs().leading_zeros()).saturating_sub(24);
    let kept = (all.unsigned_abs() >> excess << excess) as f64 * f64::from(all.signum() as i8);
    (kept * 2f64.powi(most - BELOW)) as f32
}

/// A half as a whole number of 2^(exponent - 10), and that exponent.
fn parts_of_half(half: f16) -> (i64, i32) {
    let bits = half.to_bits();
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 0x1f), i64::from(bits & 0x3ff));
    let whole = if exponent == 0 { mantissa } else { mantissa | 1 << 10 };
    (if sign == 1 { -whole } else { whole }, exponent.max(1) - 15)
}

/// The same of a float and 2^(exponent - 23).
fn parts_of_float(float: f32) -> (i64, i32) {
    let bits = float.to_bits();
    let (sign, exponent, mantissa) = (bits >> 31, (bits >> 23 & 0xff) as i32, i64::from(bits & 0x7f_ffff));
    let whole = if exponent == 0 { mantissa } else { mantissa | 1 << 23 };
    (if sign == 1 { -whole } else { whole }, exponent.max(1) - 127)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves<const N: usize>(values: [f32; N]) -> [f16; STEP] {
        std::array::from_fn(|i| f16::from_f32(values.get(i).copied().unwrap_or(0.0)))
    }

    #[test]
    fn a_unit_adds_what_is_exact_exactly() {
        assert_eq!(unit(0.5, halves([1.0, 2.0, -3.0]), halves([4.0, 0.25, 1.5])), 0.5 + 4.0 + 0.5 - 4.5);
        assert_eq!(unit(0.0, halves([]), halves([])), 0.0);
        assert_eq!(unit(-7.25, halves([]), halves([])), -7.25);
        // The smallest halves there are.
        let smallest = f16::from_bits(1).to_f32();
        assert_eq!(unit(0.0, halves([smallest]), halves([smallest])), smallest * smallest);
    }

    /// What is further below the largest than 25 bits is cut, whatever its sign, and the sum to 24 bits.
    #[test]
    fn a_unit_cuts_towards_zero() {
        let tiny = 2f32.powi(-13);
        // 1 and two times 2^-26 + 2^-25: only one bit of each is left, and that is below 24 bits.
        assert_eq!(unit(1.0, halves([tiny * 1.5; 2]), halves([tiny; 2])), 1.0);
        // Eight of them are 2^-22.
        assert_eq!(unit(1.0, halves([tiny * 1.5; 8]), halves([tiny * 2.0; 8])), 1.0 + 2f32.powi(-22));
        assert_eq!(unit(-1.0, halves([-tiny * 1.5; 8]), halves([tiny * 2.0; 8])), -1.0 - 2f32.powi(-22));
        // A negative one is not rounded down: 1 - 2^-26 would be less than one.
        assert_eq!(unit(1.0, halves([-tiny]), halves([tiny])), 1.0);
    }

    #[test]
    fn rows_use_the_range_of_halves() {
        for scale in [1e-20f32, 1e-3, 1.0, 60_000.0, 1e30] {
            let x = [0.75 * scale, -scale, 0.001 * scale, 0.0];
            let row = half_row(&x);
            assert!((8192.0..=16384.0).contains(&row.values[1].to_f32().abs()), "{scale}: {row:?}");
            for (x, half) in x.iter().zip(&row.values) {
                let back = half.to_f32() * row.factor;
                assert!((back - x).abs() <= x.abs() * 2f32.powi(-11), "{x} became {back}");
            }
        }
        assert_eq!(half_row(&[0.0, -0.0]).values, [f16::ZERO, f16::NEG_ZERO]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let row = half_row(&[1.0, bad, 2.0]);
            assert!(row.factor.is_nan() && row.values.iter().all(|value| *value == f16::ZERO));
        }
    }

    /// Groups get the row's factor: those that are not far below the largest keep their bits.
    #[test]
    fn groups_of_activations_are_halves_of_the_row() {
        let row = |sizes: &[f32]| -> Vec<f32> {
            let values = sizes.iter().enumerate().flat_map(|(g, size)| {
                (0..HALF_GROUP).map(move |i| size * (1.0 - ((i * 7 + g) % 32) as f32 / 16.0))
            });
            values.take(sizes.len() * HALF_GROUP - 5).collect()
        };
        let near = row(&[1.0, 0.01, 30.0, 0.125]);
        assert_eq!(half_activations(&near), half_row(&near));
        let far = row(&[1e-4, 1e5, 1e-30, 3e-3, 0.0]);
        let (halves, at_once) = (half_activations(&far), half_row(&far));
        assert_eq!(halves.factor, at_once.factor);
        for ((x, half), once) in far.iter().zip(&halves.values).zip(&at_once.values) {
            // Rounded once more, to what is left of a small half.
            let (back, once) = (half.to_f32() * halves.factor, once.to_f32() * halves.factor);
            let step = halves.factor * SMALLEST;
            assert!((back - x).abs() <= x.abs() * 2f32.powi(-11) + step * 0.51, "{x} became {back}");
            assert!((back - once).abs() <= step, "{x} became {back}, and at once {once}");
        }
        let mut bad = row(&[1.0, 2.0, 3.0]);
        bad[40] = f32::NAN;
        let halves = half_activations(&bad);
        assert!(halves.factor.is_nan() && halves.values.iter().all(|half| *half == f16::ZERO));
        assert_eq!(half_activations(&[]).values, []);
    }

    /// Against sums in f64: within what sixteen cut products, sixteen steps and the segments can lose.
    #[test]
    fn dot_products_are_near_the_truth() {
        let mut seed = 7u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        for length in [1, 5, 16, 31, 32, 100, 256, 257, 1000, 4096] {
            let row =
                |next: &mut dyn FnMut() -> f32| half_row(&(0..length).map(|_| next()).collect::<Vec<_>>());
            let (a, b) = (row(&mut next), row(&mut next));
            let products = a.values.iter().zip(&b.values).map(|(a, b)| a.to_f64() * b.to_f64());
            let (truth, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
            let got = f64::from(dot_halves(&a.values, &b.values));
            assert!((got - truth).abs() <= size * 2f64.powi(-21), "{length}: {got}, not {truth}");
        }
    }

    #[test]
    fn weights_of_integers_are_near_what_they_decode_to() {
        let integers: Vec<i8> = (0..64).map(|i| (i * 37 % 16) as i8).collect();
        let (factors, min_factors) = (vec![13, 63], vec![7, 62]);
        let (scales, mins) = (vec![1.7e-5, 2.2e-5], vec![-3.1e-4, -1.0e-4]);
        let row = IntegerRow {
            integers: &integers,
            factors: &factors,
            scales: &scales,
            min_factors: &min_factors,
            mins: &mins,
            block: 32,
            group: 32,
        };
        let HalfRow { values, factor } = half_weights(row);
        let largest = values.iter().fold(0.0f32, |most, half| most.max(half.to_f32().abs())) * factor;
        for (i, half) in values.iter().enumerate() {
            let (scale, min) =
                (scales[i / 32] * f32::from(factors[i / 32]), mins[i / 32] * f32::from(min_factors[i / 32]));
            let truth = scale * f32::from(integers[i]) + min;
            let got = half.to_f32() * factor;
            let size = (scale * f32::from(integers[i])).abs() + min.abs();
            let most = size * 2f32.powi(-10) + largest * 2f32.powi(-18);
            assert!((got - truth).abs() <= most, "weight {i}: {got}, not {truth}");
        }
    }

    /// Against f64, in which halves of a like size are added and multiplied exactly.
    #[test]
    fn weights_are_rounded_once() {
        let nearest = |x: f64| {
            let near = f16::from_f32(x as f32);
            let around = [near.to_bits() - 1, near.to_bits(), near.to_bits() + 1].map(f16::from_bits);
            let far = |half: &f16| (half.to_f64() - x).abs();
            let least = around.iter().map(far).fold(f64::MAX, f64::min);
            let ties: Vec<f16> = around.into_iter().filter(|half| far(half) == least).collect();
            *ties.iter().find(|half| ties.len() == 1 || half.to_bits() % 2 == 0).unwrap()
        };
        for (scale, min) in [(30_000.0, -0.01), (20_001.0, 0.0077), (0.3, -0.001), (17.0, 3e-6)] {
            let (scale, min) = (f16::from_f64(scale), f16::from_f64(min));
            for integer in 0..64 {
                let exact = f64::from(integer) * f64::from(SMALLEST) * scale.to_f64() + min.to_f64();
                assert_eq!(fused(integer, scale, min), nearest(exact), "{integer} · {scale} + {min}");
            }
        }
    }
}
