//! The elementary functions of `gleed_model::arithmetic`, sixteen at a time.

use gleed_model::arithmetic::{
    ARTANH_POLYNOMIAL, CLAMPED_SWIGLU_LIMIT, CLAMPED_SWIGLU_SLOPE, ERF_RATE, EXP_HIGH, EXP_LN2_HIGH,
    EXP_LN2_LOW, EXP_LOW, EXP_POLYNOMIAL, GELU_CUBIC, GELU_SCALE, TAIL_END, TAIL_POLYNOMIAL, Xielu,
};

use super::simd::Simd;

/// `arithmetic::exp`. NaN passes through `max` and `min` as their second operand.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let x = s.min(s.splat(EXP_HIGH), s.max(s.splat(EXP_LOW), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.mul_add(n, s.splat(-EXP_LN2_LOW), s.mul_add(n, s.splat(-EXP_LN2_HIGH), x));
    let mut p = s.splat(EXP_POLYNOMIAL[0]);
    for &c in &EXP_POLYNOMIAL[1..] {
        p = s.mul_add(p, r, s.splat(c));
    }
    s.mul(p, s.power_of_two(n))
}

/// `arithmetic::silu`.
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let e = exp(s, s.mul(x, s.splat(-1.0)));
    s.div(x, s.add(s.splat(1.0), e))
}

/// `arithmetic::sigmoid`.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let e = exp(s, s.mul(x, s.splat(-1.0)));
    s.div(s.splat(1.0), s.add(s.splat(1.0), e))
}

/// `arithmetic::softplus`. NaN passes through `max` as its second operand.
#[inline(always)]
pub fn softplus<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let u = exp(s, s.mul(s.abs(x), s.splat(-1.0)));
    let quotient = s.div(u, s.add(s.splat(2.0), u));
    let square = s.mul(quotient, quotient);
    let mut p = s.splat(ARTANH_POLYNOMIAL[0]);
    for &c in &ARTANH_POLYNOMIAL[1..] {
        p = s.mul_add(p, square, s.splat(c));
    }
    let positive = s.max(s.splat(0.0), x);
    s.add(positive, s.mul(s.mul(s.splat(2.0), quotient), p))
}

/// `arithmetic::clamped_swiglu`. NaN passes through `min` and `max` as their second operand.
#[inline(always)]
pub fn clamped_swiglu<S: Simd>(s: S, gate: S::F32, up: S::F32) -> S::F32 {
    let limit = s.splat(CLAMPED_SWIGLU_LIMIT);
    let gate = s.min(limit, gate);
    let up = s.min(limit, s.max(s.splat(-CLAMPED_SWIGLU_LIMIT), up));
    let e = exp(s, s.mul(gate, s.splat(-CLAMPED_SWIGLU_SLOPE)));
    s.mul(s.div(gate, s.add(s.splat(1.0), e)), s.add(up, s.splat(1.0)))
}

/// `arithmetic::squared_relu`. NaN passes through `max` as its second operand.
#[inline(always)]
pub fn squared_relu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let positive = s.max(s.splat(0.0), x);
    s.mul(positive, positive)
}

/// `arithmetic::soft_cap`.
#[inline(always)]
pub fn soft_cap<S: Simd>(s: S, x: S::F32, cap: f32) -> S::F32 {
    let e = exp(s, s.mul(x, s.splat(-2.0 / cap)));
    let tanh = s.sub(s.div(s.splat(2.0), s.add(s.splat(1.0), e)), s.splat(1.0));
    s.mul(s.splat(cap), tanh)
}

/// `arithmetic::xielu`. NaN passes through `max` and `min` as their second operand.
#[inline(always)]
pub fn xielu<S: Simd>(s: S, x: S::F32, numbers: Xielu) -> S::F32 {
    let (positive, negative) = (s.max(s.splat(0.0), x), s.min(s.splat(0.0), x));
    let bent = s.sub(exp_m1(s, negative), negative);
    let parabola =
        s.mul_add(s.mul(s.splat(numbers.above), positive), positive, s.mul(s.splat(numbers.slope), x));
    s.mul_add(s.splat(numbers.below), bent, parabola)
}

/// `arithmetic::exp_m1`. NaN passes through `max` and `min` as their second operand.
#[inline(always)]
fn exp_m1<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let x = s.min(s.splat(EXP_HIGH), s.max(s.splat(EXP_LOW), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.mul_add(n, s.splat(-EXP_LN2_LOW), s.mul_add(n, s.splat(-EXP_LN2_HIGH), x));
    let mut p = s.splat(EXP_POLYNOMIAL[0]);
    for &c in &EXP_POLYNOMIAL[1..EXP_POLYNOMIAL.len() - 1] {
        p = s.mul_add(p, r, s.splat(c));
    }
    let power = s.power_of_two(n);
    s.mul_add(power, s.mul(p, r), s.sub(power, s.splat(1.0)))
}

/// `arithmetic::gelu`.
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let cubic = s.mul_add(s.mul(s.splat(GELU_CUBIC), x), x, s.splat(1.0));
    let u = s.mul(s.mul(s.splat(GELU_SCALE), x), cubic);
    let e = exp(s, s.mul(s.splat(-2.0), u));
    s.div(x, s.add(s.splat(1.0), e))
}

/// `arithmetic::exact_gelu`. NaN passes through `max` and `min` as their second operand.
#[inline(always)]
pub fn exact_gelu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let magnitude = s.min(s.splat(TAIL_END), s.abs(x));
    let one = s.splat(1.0);
    let t = s.div(one, s.mul_add(s.splat(ERF_RATE), magnitude, one));
    let mut p = s.splat(TAIL_POLYNOMIAL[0]);
    for &c in &TAIL_POLYNOMIAL[1..] {
        p = s.mul_add(p, t, s.splat(c));
    }
    let tail = s.mul(s.mul(p, t), exp(s, s.mul(s.mul(s.splat(-0.5), magnitude), magnitude)));
    s.mul_add(s.mul(magnitude, s.splat(-1.0)), tail, s.max(s.splat(0.0), x))
}
