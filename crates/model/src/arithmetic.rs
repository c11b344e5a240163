//! The arithmetic, written once and plainly: every order of operations that a CPU result depends on.
//!
//! Vectorised kernels must reproduce these functions bit for bit, so each one is defined in a shape that
//! all instruction sets can follow: sixteen accumulator lanes folded by halves for sums over columns,
//! one fused multiply-add per block for integer products. `docs/arithmetic.md` says the same in prose.

mod adapters;
mod encoders;
mod half_attention;
mod halves;
mod index;
mod streams;
#[cfg(test)]
mod tests;
mod xielu;

pub use adapters::add_low_rank;
pub use encoders::{
    ERF_RATE, TAIL_END, TAIL_POLYNOMIAL, alibi_slope, center, exact_gelu, faded, mean_of_rows,
};
pub use half_attention::{HALF_DIMENSIONS, Scoring, attend_halves, half_scale, half_sink, half_soft_cap};
pub use halves::{
    HALF_GROUP, HalfRow, HalfTerms, SEGMENT, STEP, STEPS, dot_halves, half_activations, half_row, half_terms,
    half_values, half_weights, unit,
};
pub use index::{choose_positions, chosen_in_page, index_score};
pub use streams::{correct_streams, length, mix_streams, sparsify};
pub use xielu::{Xielu, exp_m1, xielu};

/// Which order of operations linear layers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Activations quantised to int8 in the blocks of the weights, exact integer dot products per block,
    /// one f32 multiply-add per block. Applies to block-quantised weights; float weights use `F32`.
    #[default]
    Q8,
    /// Weights decoded to f32, products accumulated in sixteen lanes.
    F32,
    /// Weights and activations rounded to f16, as the matrix units of GPUs multiply them; only those do.
    F16,
}

impl std::str::FromStr for Arithmetic {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "q8" => Ok(Arithmetic::Q8),
            "f32" => Ok(Arithmetic::F32),
            "f16" => Ok(Arithmetic::F16),
            _ => Err(format!("unknown arithmetic {name}; known: q8, f32, f16")),
        }
    }
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Arithmetic::Q8 => "q8",
            Arithmetic::F32 => "f32",
            Arithmetic::F16 => "f16",
        })
    }
}

/// Accumulator lanes of every f32 sum over columns.
pub const LANES: usize = 16;

/// Values of a block of the formats with one level of scales, and of a block of q8_0 keys and values.
pub const BLOCK: usize = 32;

/// Values of a block of the formats whose scales have small integer factors.
pub const SUPER_BLOCK: usize = 256;

/// Positions per page of the KV cache, and per tile of the attention's running softmax.
pub const PAGE: usize = 64;

/// Positions per span of attention: each span has a running softmax of its own, so that spans can be
/// computed at the same time, and their results are merged in ascending order.
pub const SPAN: usize = 4 * PAGE;

/// Folds sixteen lanes into one value: lane i + lane i+8, then +4, +2, +1.
#[inline(always)]
pub fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The dot product: element i goes to lane i mod 16 by a fused multiply-add, then the lanes are folded.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] = a[i].mul_add(b[i], lanes[i]);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane = a.mul_add(*b, *lane);
    }
    fold(lanes)
}

/// The sum: element i goes to lane i mod 16, then the lanes are folded.
pub fn sum(a: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for a in a.chunks(LANES) {
        for (lane, a) in lanes.iter_mut().zip(a) {
            *lane += a;
        }
    }
    fold(lanes)
}

/// `e^x` by range reduction and a polynomial; at most 2 units in the last place from the true value.
/// Arguments beyond the range of f32 are clamped to it, so the result is finite and positive; NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // n = round(x / ln 2); r = x - n ln 2, with ln 2 split in two so that the subtraction is exact.
    let x = x.clamp(EXP_LOW, EXP_HIGH);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-EXP_LN2_LOW, n.mul_add(-EXP_LN2_HIGH, x));
    let mut p = EXP_POLYNOMIAL[0];
    for &c in &EXP_POLYNOMIAL[1..] {
        p = p.mul_add(r, c);
    }
    p * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

/// The smallest argument of [`exp`] that is not clamped; the result stays a normal number.
pub const EXP_LOW: f32 = -87.0;
/// The largest argument of [`exp`] that is not clamped; the result stays finite.
pub const EXP_HIGH: f32 = 88.0;
/// The high part of ln 2: few enough bits that its product with the exponent is exact.
pub const EXP_LN2_HIGH: f32 = 0.693_145_75;
/// The rest of ln 2.
pub const EXP_LN2_LOW: f32 = 1.428_606_8e-6;
/// e^r on |r| <= ln 2 / 2, highest power first.
pub const EXP_POLYNOMIAL: [f32; 7] =
    [0.001_388_888_9, 0.008_333_334, 0.041_666_668, 0.166_666_67, 0.5, 1.0, 1.0];

/// x · sigmoid(x).
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// ln(1 + e^x), as max(x, 0) + ln(1 + u) with u = e^-|x|, and that as 2 · artanh(u / (2 + u)), whose argument is at most
/// a third.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let u = exp(-x.abs());
    let s = u / (2.0 + u);
    let square = s * s;
    let mut p = ARTANH_POLYNOMIAL[0];
    for &c in &ARTANH_POLYNOMIAL[1..] {
        p = p.mul_add(square, c);
    }
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + 2.0 * s * p
}

/// artanh(s) / s in s² on s <= 1/3, highest power first.
pub const ARTANH_POLYNOMIAL: [f32; 8] =
    [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 0.2, 1.0 / 3.0, 1.0];

/// gate · sigmoid(1.702 gate) · (up + 1), with the gate at most 7 and up between -7 and 7.
pub fn clamped_swiglu(gate: f32, up: f32) -> f32 {
    let limit = CLAMPED_SWIGLU_LIMIT;
    // NaN passes through comparisons that it fails.
    let gate = if gate > limit { limit } else { gate };
    let up = up.clamp(-limit, limit);
    gate / (1.0 + exp(gate * -CLAMPED_SWIGLU_SLOPE)) * (up + 1.0)
}

/// The bound of [`clamped_swiglu`].
pub const CLAMPED_SWIGLU_LIMIT: f32 = 7.0;
/// How much steeper than a plain sigmoid that of [`clamped_swiglu`] is.
pub const CLAMPED_SWIGLU_SLOPE: f32 = 1.702;

/// The tanh approximation of GELU, as x · sigmoid(2u) with u = √(2/π)(x + 0.044715 x³).
pub fn gelu(x: f32) -> f32 {
    let u = GELU_SCALE * x * (GELU_CUBIC * x).mul_add(x, 1.0);
    x / (1.0 + exp(-2.0 * u))
}

/// max(x, 0)².
pub fn squared_relu(x: f32) -> f32 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive * positive
}

/// cap · tanh(x / cap), with tanh(u) as 2 · sigmoid(2u) - 1.
pub fn soft_cap(x: f32, cap: f32) -> f32 {
    cap * (2.0 / (1.0 + exp(x * (-2.0 / cap))) - 1.0)
}

/// √(2/π).
pub const GELU_SCALE: f32 = 0.797_884_6;
/// The cubic term of GELU's tanh approximation.
pub const GELU_CUBIC: f32 = 0.044_715;

/// RMS norm of one row: `x · (1/√(mean(x²) + ε)) · weight`.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let scale = rms_factor(x, epsilon);
    for ((out, x), w) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * w;
    }
}

/// What an RMS norm multiplies a row with before its weights: `1/√(mean(x²) + ε)`.
pub fn rms_factor(x: &[f32], epsilon: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + epsilon).sqrt()
}

/// Layer norm of one row: `(x - mean) · (1/√(variance + ε)) · weight + bias`.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) {
    let mean = sum(x) / x.len() as f32;
    for (out, x) in out.iter_mut().zip(x) {
        *out = x - mean;
    }
    let scale = 1.0 / (dot(out, out) / x.len() as f32 + epsilon).sqrt();
    for ((out, w), b) in out.iter_mut().zip(weight).zip(bias) {
        *out = (*out * scale).mul_add(*w, *b);
    }
}

/// Rotates one pair by an angle given as cosine and sine.
pub fn rotate(x0: f32, x1: f32, cos: f32, sin: f32) -> (f32, f32) {
    (x0.mul_add(cos, -(x1 * sin)), x0.mul_add(sin, x1 * cos))
}

/// The largest magnitude; NaN where one of the values is.
///
/// Without its sign a float is ordered like its bits, with infinity above all numbers and NaN above that.
pub fn largest_magnitude(x: &[f32]) -> f32 {
    f32::from_bits(x.iter().fold(0, |largest, x| largest.max(x.abs().to_bits())))
}

/// Quantises one block of activations: `x ≈ scale · q` with |q| ≤ 127. Returns the scale.
///
/// A block with a NaN or an infinity has a scale that is one, and integers that are zero: whatever is
/// multiplied with it is NaN.
pub fn quantize(x: &[f32], q: &mut [i8]) -> f32 {
    let largest = largest_magnitude(x);
    // Without an inverse (all zero, too small for one, or not a number) the block is zero.
    let inverse = 127.0 / largest;
    let inverse = if inverse.is_finite() { inverse } else { 0.0 };
    for (q, x) in q.iter_mut().zip(x) {
        *q = (x * inverse).round_ties_even() as i8;
    }
    largest / 127.0
}

/// Σ|q| of a block of 256 below which it is uneven: its largest value is more than 64 times the mean.
pub const UNEVEN: i32 = 127 * SUPER_BLOCK as i32 / 64;

/// Whether a quantised block of 256 is uneven: a few values are so much larger than the others that
/// little is left of those. A row with an uneven block is multiplied twice, the second time with what
/// its integers leave of it, see [`remainder`].
pub fn is_uneven(q: &[i8], scale: f32) -> bool {
    scale > 0.0 && q.iter().map(|q| i32::from(q.unsigned_abs())).sum::<i32>() < UNEVEN
}

/// What is left of a block when its integers are taken away: `x - scale · q`, rounded once.
pub fn remainder(x: &[f32], q: &[i8], scale: f32, out: &mut [f32]) {
    for (out, (x, q)) in out.iter_mut().zip(x.iter().zip(q)) {
        *out = (-scale).mul_add(f32::from(*q), *x);
    }
}

/// One row of weights as integers: `weight = (scale · factor) · integer + min · min factor`, see
/// `gleed_gguf::Groups`.
#[derive(Debug, Clone, Copy)]
pub struct IntegerRow<'a> {
    /// One integer per column.
    pub integers: &'a [i8],
    /// One factor per group.
    pub factors: &'a [i8],
    /// One scale per block.
    pub scales: &'a [f32],
    /// One min factor per group, or empty.
    pub min_factors: &'a [i8],
    /// One min per block, or empty.
    pub mins: &'a [f32],
    /// Columns per block: 32 or 256.
    pub block: usize,
    /// Columns per group: 16 or 32.
    pub group: usize,
}

/// The dot product of a row of integer weights with activations that are quantised in the same blocks.
/// Everything within a block is an exact integer; then, block by block,
/// `acc = fma(scale · activation_scale, Σ factor · Σ w·x, acc)`, and where there are mins
/// `acc = fma(min, activation_scale · (Σ min_factor · Σ x), acc)`.
#[inline(always)]
pub fn dot_q8(weights: IntegerRow, q: &[i8], activation_scales: &[f32]) -> f32 {
    let mut acc = 0.0f32;
    for (b, (w, x)) in weights.integers.chunks(weights.block).zip(q.chunks(weights.block)).enumerate() {
        let (mut products, mut sums) = (0, 0);
        for (g, (w, x)) in w.chunks(weights.group).zip(x.chunks(weights.group)).enumerate() {
            let g = b * (weights.block / weights.group) + g;
            let product: i32 = w.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x)).sum();
            products += i32::from(weights.factors[g]) * product;
            if !weights.mins.is_empty() {
                let sum: i32 = x.iter().map(|&x| i32::from(x)).sum();
                sums += i32::from(weights.min_factors[g]) * sum;
            }
        }
        let scale = activation_scales[b];
        acc = (weights.scales[b] * scale).mul_add(products as f32, acc);
        if !weights.mins.is_empty() {
            acc = weights.mins[b].mul_add(scale * sums as f32, acc);
        }
    }
    acc
}

/// A query's score of a key: one chain of fused multiply-adds over the dimensions in ascending order,
/// starting from zero, then the scale.
#[inline(always)]
pub fn score(query: &[f32], key: &[f32], scale: f32) -> f32 {
    assert_eq!(query.len(), key.len());
    let mut sum = 0.0f32;
    for (q, k) in query.iter().zip(key) {
        sum = q.mul_add(*k, sum);
    }
    sum * scale
}

/// The running softmax of one query over the positions of a span, one tile (page) at a time, and then
/// over spans.
#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    /// The largest score so far.
    pub max: f32,
    /// Σ e^(score - max) so far.
    pub sum: f32,
}

impl Default for Softmax {
    fn default() -> Self {
        Softmax { max: f32::NEG_INFINITY, sum: 0.0 }
    }
}

impl Softmax {
    /// One that begins with a score that has no value.
    pub fn of_sink(score: f32) -> Softmax {
        Softmax { max: score, sum: 1.0 }
    }

    /// Takes in one tile: turns `scores` into weights e^(score - max) in place, and returns the factor by
    /// which everything accumulated before must be multiplied.
    #[inline(always)]
    pub fn tile(&mut self, scores: &mut [f32]) -> f32 {
        let max = scores.iter().fold(self.max, |m, s| m.max(*s));
        let correction = self.correction(max);
        for s in scores.iter_mut() {
            *s = exp(*s - max);
        }
        self.sum = self.sum.mul_add(correction, sum(scores));
        self.max = max;
        correction
    }

    /// Takes in the softmax of the next span. Returns two factors, of what was accumulated before and of
    /// what the span accumulated: `acc = fma(acc, before, span · after)`.
    #[inline(always)]
    pub fn merge(&mut self, span: Softmax) -> (f32, f32) {
        let max = self.max.max(span.max);
        let (before, after) = (self.correction(max), span.correction(max));
        self.sum = self.sum.mul_add(before, span.sum * after);
        self.max = max;
        (before, after)
    }

    /// The factor of what has been accumulated when the largest score becomes `max`.
    fn correction(self, max: f32) -> f32 {
        if self.max == f32::NEG_INFINITY { 0.0 } else { exp(self.max - max) }
    }
}

/// Adds one position's values to the accumulator: `acc = fma(weight, value, acc)`.
#[inline(always)]
pub fn accumulate(acc: &mut [f32], weight: f32, values: &[f32]) {
    for (acc, v) in acc.iter_mut().zip(values) {
        *acc = weight.mul_add(*v, *acc);
    }
}
