//! RMS norm and layer norm of one row (or one head), in place.

use gleed_model::arithmetic::LANES;

use super::dot::{dot, sum};
use super::simd::{Kernel, Simd};

/// The norm of a row, in place.
#[derive(Debug)]
pub struct Norm<'a> {
    /// The row.
    pub x: &'a mut [f32],
    /// The factor per column.
    pub weight: &'a [f32],
    /// With a bias per column it is layer norm, without it RMS norm.
    pub bias: Option<&'a [f32]>,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Norm { x, weight, bias, epsilon } = self;
        assert_eq!(x.len(), weight.len());
        match bias {
            None => rms(s, x, weight, epsilon),
            Some(bias) => layer(s, x, weight, bias, epsilon),
        }
    }
}

#[inline(always)]
fn rms<S: Simd>(s: S, x: &mut [f32], weight: &[f32], epsilon: f32) {
    let scale = 1.0 / (dot(s, x, x) / x.len() as f32 + epsilon).sqrt();
    let scales = s.splat(scale);
    let (xs, x_rest) = x.as_chunks_mut::<LANES>();
    let (ws, w_rest) = weight.as_chunks::<LANES>();
    for (x, w) in xs.iter_mut().zip(ws) {
        s.store(s.mul(s.mul(s.load(x), scales), s.load(w)), x);
    }
    for (x, w) in x_rest.iter_mut().zip(w_rest) {
        *x = *x * scale * w;
    }
}

/// A row less its mean, in place.
#[derive(Debug)]
pub struct Center<'a> {
    /// The row.
    pub x: &'a mut [f32],
}

impl Kernel for Center<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        center(s, self.x);
    }
}

#[inline(always)]
pub(super) fn center<S: Simd>(s: S, x: &mut [f32]) {
    let mean = sum(s, x) / x.len() as f32;
    let (xs, x_rest) = x.as_chunks_mut::<LANES>();
    for x in xs {
        s.store(s.sub(s.load(x), s.splat(mean)), x);
    }
    for x in x_rest {
        *x -= mean;
    }
}

#[inline(always)]
fn layer<S: Simd>(s: S, x: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) {
    assert_eq!(x.len(), bias.len());
    let count = x.len() as f32;
    center(s, x);
    let scale = 1.0 / (dot(s, x, x) / count + epsilon).sqrt();
    let scales = s.splat(scale);
    let (xs, x_rest) = x.as_chunks_mut::<LANES>();
    let ((ws, w_rest), (bs, b_rest)) = (weight.as_chunks::<LANES>(), bias.as_chunks::<LANES>());
    for (x, (w, b)) in xs.iter_mut().zip(ws.iter().zip(bs)) {
        s.store(s.mul_add(s.mul(s.load(x), scales), s.load(w), s.load(b)), x);
    }
    for (x, (w, b)) in x_rest.iter_mut().zip(w_rest.iter().zip(b_rest)) {
        *x = (*x * scale).mul_add(*w, *b);
    }
}
