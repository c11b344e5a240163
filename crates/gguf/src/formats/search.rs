//! Finding the scale (and min) of a group of weights: a search over candidate grids, each refined by
//! weighted least squares. The encoders of the K formats and IQ4_NL choose their scales with it,
//! and those of Q4 and Q5 where they know which values matter more.

/// Adding and subtracting this rounds a float of magnitude below 2^22 to the nearest integer (ties to
/// even) without a call or a branch, so that loops over it vectorise on every machine.
const ROUNDER: f32 = 12_582_912.0;

/// The nearest integer, for magnitudes below 2^22.
#[inline(always)]
pub(super) fn round(value: f32) -> f32 {
    (value + ROUNDER) - ROUNDER
}

/// The nearest of the integers `low..=high`.
#[inline(always)]
pub(super) fn quantise(value: f32, low: f32, high: f32) -> f32 {
    round(value.max(low).min(high))
}

/// Sums `N` terms of `K` sums at once, in eight lanes (the order of a sum is fixed, so that a file is the
/// same whatever machine writes it).
#[inline(always)]
pub(super) fn sums<const N: usize, const K: usize>(term: impl Fn(usize) -> [f32; K]) -> [f32; K] {
    let mut lanes = [[0.0f32; K]; 8];
    for i in (0..N).step_by(8) {
        for (lane, sums) in lanes.iter_mut().enumerate() {
            for (sum, term) in sums.iter_mut().zip(term(i + lane)) {
                *sum += term;
            }
        }
    }
    std::array::from_fn(|k| lanes.iter().map(|sums| sums[k]).sum())
}

/// Weights that care more for large values, which matter more in a dot product: `|x|` plus the root mean
/// square.
#[inline(always)]
pub(super) fn magnitude_weights<const N: usize>(values: &[f32; N]) -> [f32; N] {
    let [squares] = sums::<N, 1>(|i| [values[i] * values[i]]);
    let spread = (squares / N as f32).sqrt();
    values.map(|value| spread + value.abs())
}

/// The importance that every value of a group has at least, as a share of their mean: a column that the text never
/// reached still counts, and sums over a group are never those of one value alone.
const LEAST_IMPORTANCE: f32 = 1e-4;

/// How much an error in each value of a group matters: its importance, where that is known, times the root of the mean
/// square plus the value's own; else (or where all of it is zero) [`magnitude_weights`].
#[inline(always)]
pub(super) fn weights<const N: usize>(values: &[f32; N], importance: Option<&[f32; N]>) -> [f32; N] {
    let Some(importance) = importance else { return magnitude_weights(values) };
    let [squares, total] = sums::<N, 2>(|i| [values[i] * values[i], importance[i]]);
    let (square, mean) = (squares / N as f32, total / N as f32);
    if mean == 0.0 || !mean.is_finite() {
        return magnitude_weights(values);
    }
    // As shares of the mean, so that no product of small numbers vanishes.
    std::array::from_fn(|i| {
        (importance[i] / mean + LEAST_IMPORTANCE) * (square + values[i] * values[i]).sqrt()
    })
}

/// `value ≈ scale * q + min` with q in `0..=top`.
#[derive(Clone, Copy, Default)]
pub(super) struct Affine {
    pub(super) scale: f32,
    pub(super) min: f32,
}

/// The scale and min of least weighted squared error, over grids a little finer and coarser than the one
/// that just spans the values. The min is at most `highest_min`: zero where a format stores it negated without a sign.
pub(super) fn affine<const N: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    top: f32,
    highest_min: f32,
) -> Affine {
    let (low, high) = range(values);
    let low = low.min(highest_min);
    if high <= low {
        return Affine { scale: 0.0, min: low };
    }
    // Everything is measured from the lowest value, so that sums do not cancel.
    let raised = values.map(|value| value - low);
    let [sum_w, sum_y, sum_yy] = sums::<N, 3>(|i| {
        let (w, y) = (weights[i], raised[i]);
        [w, w * y, w * y * y]
    });
    let mut best = Affine { scale: (high - low) / top, min: low };
    let mut least = f32::INFINITY;
    for step in -10i8..=10 {
        let inverse = (top + 0.1 * f32::from(step)) / (high - low);
        let [sum_q, sum_qq, sum_qy] = sums::<N, 3>(|i| {
            let q = quantise(inverse * raised[i], 0.0, top);
            let wq = weights[i] * q;
            [wq, wq * q, wq * raised[i]]
        });
        let determinant = sum_w * sum_qq - sum_q * sum_q;
        let mut scale = (sum_w * sum_qy - sum_q * sum_y) / determinant;
        let mut offset = (sum_qq * sum_y - sum_q * sum_qy) / determinant;
        if low + offset > highest_min {
            offset = highest_min - low;
            scale = (sum_qy - offset * sum_q) / sum_qq;
        }
        let error = sum_yy
            + scale * (scale * sum_qq + 2.0 * (offset * sum_q - sum_qy))
            + offset * (offset * sum_w - 2.0 * sum_y);
        if error < least && scale > 0.0 {
            least = error;
            best = Affine { scale, min: low + offset };
        }
    }
    best
}

/// The scale of least weighted squared error for `value ≈ scale * q`, q in `-top..top`. With `clipping` scales are tried
/// too that leave the largest value out of reach, which pays where it need not be the one that matters.
pub(super) fn symmetric<const N: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    top: f32,
    clipping: bool,
) -> f32 {
    let largest = largest(values);
    if largest == 0.0 {
        return 0.0;
    }
    let mut best = largest / -top;
    let mut most = 0.0;
    for step in -9..=if clipping { 30i8 } else { 9 } {
        let inverse = -(top + 0.1 * f32::from(step)) / largest;
        let [sum_qx, sum_qq] = sums::<N, 2>(|i| {
            let q = quantise(inverse * values[i], -top, top - 1.0);
            let wq = weights[i] * q;
            [wq * values[i], wq * q]
        });
        // The error is the values' square sum less this.
        let gain = sum_qx * sum_qx / sum_qq;
        if gain > most {
            most = gain;
            best = sum_qx / sum_qq;
        }
    }
    best
}

/// The value of largest magnitude, with its sign.
#[inline(always)]
pub(super) fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest: f32, value| if value.abs() > largest.abs() { *value } else { largest })
}

/// The weighted squared error of `decoded(value)`.
#[inline(always)]
pub(super) fn square_error<const N: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    decoded: impl Fn(f32) -> f32,
) -> f32 {
    let [error] = sums::<N, 1>(|i| {
        let difference = decoded(values[i]) - values[i];
        [weights[i] * difference * difference]
    });
    error
}

/// The smallest and the largest value.
#[inline(always)]
pub(super) fn range(values: &[f32]) -> (f32, f32) {
    values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// One over a scale; zero for a scale of zero, whose values are all zero.
#[inline(always)]
pub(super) fn reciprocal(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
