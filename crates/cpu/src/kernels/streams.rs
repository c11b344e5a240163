//! Kernels of several residual streams, of rows that are blended or summed up together, and of activations of which only
//! the largest are left.

use gleed_model::arithmetic::LANES;

use super::dot::dot;
use super::norm::center;
use super::simd::{Kernel, Simd};

/// One stream, corrected: `out = fma(factor, truth - first, stream)`, all of one length.
#[derive(Debug)]
pub struct CorrectStream<'a> {
    /// What was predicted of it.
    pub stream: &'a [f32],
    /// What became of the first stream.
    pub truth: &'a [f32],
    /// What was predicted of that.
    pub first: &'a [f32],
    /// How much of the difference it takes.
    pub factor: f32,
    /// The result.
    pub out: &'a mut [f32],
}

impl Kernel for CorrectStream<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let CorrectStream { stream, truth, first, factor, out } = self;
        assert_eq!([stream.len(), truth.len(), first.len()], [out.len(); 3]);
        let (factors, ((outs, out_rest), (streams, stream_rest))) =
            (s.splat(factor), (out.as_chunks_mut::<LANES>(), stream.as_chunks::<LANES>()));
        let ((truths, truth_rest), (firsts, first_rest)) =
            (truth.as_chunks::<LANES>(), first.as_chunks::<LANES>());
        for (i, out) in outs.iter_mut().enumerate() {
            let change = s.sub(s.load(&truths[i]), s.load(&firsts[i]));
            s.store(s.mul_add(factors, change, s.load(&streams[i])), out);
        }
        for (i, out) in out_rest.iter_mut().enumerate() {
            *out = factor.mul_add(truth_rest[i] - first_rest[i], stream_rest[i]);
        }
    }
}

/// One row moved towards another: `out = fma(share, y - x, x)`, all of one length.
#[derive(Debug)]
pub struct Blend<'a> {
    /// How far each column moves.
    pub shares: &'a [f32],
    /// From where.
    pub x: &'a [f32],
    /// To where.
    pub y: &'a [f32],
    /// The result.
    pub out: &'a mut [f32],
}

impl Kernel for Blend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Blend { shares, x, y, out } = self;
        assert_eq!([shares.len(), x.len(), y.len()], [out.len(); 3]);
        let ((outs, out_rest), (shares, share_rest)) =
            (out.as_chunks_mut::<LANES>(), shares.as_chunks::<LANES>());
        let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        for (i, out) in outs.iter_mut().enumerate() {
            let x = s.load(&xs[i]);
            s.store(s.mul_add(s.load(&shares[i]), s.sub(s.load(&ys[i]), x), x), out);
        }
        for (i, out) in out_rest.iter_mut().enumerate() {
            *out = share_rest[i].mul_add(y_rest[i] - x_rest[i], x_rest[i]);
        }
    }
}

/// `Σ x · y`.
#[derive(Debug)]
pub struct Dot<'a> {
    /// One row.
    pub x: &'a [f32],
    /// The other.
    pub y: &'a [f32],
}

impl Kernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        dot(s, self.x, self.y)
    }
}

/// What lies above the mean of a row by more than some standard deviations, in place; zero for all else.
#[derive(Debug)]
pub struct Sparsify<'a> {
    /// The row.
    pub x: &'a mut [f32],
    /// How many standard deviations.
    pub spread: f32,
}

impl Kernel for Sparsify<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Sparsify { x, spread } = self;
        center(s, x);
        let cut = spread * (dot(s, x, x) / (x.len() as f32 - 1.0)).sqrt();
        let (xs, rest) = x.as_chunks_mut::<LANES>();
        for x in xs {
            // NaN passes through `max` as its second operand.
            s.store(s.max(s.splat(0.0), s.sub(s.load(x), s.splat(cut))), x);
        }
        for x in rest {
            let over = *x - cut;
            *x = if over < 0.0 { 0.0 } else { over };
        }
    }
}

/// The length of a row, `√Σx²`.
#[derive(Debug)]
pub struct Length<'a> {
    /// The row.
    pub x: &'a [f32],
}

impl Kernel for Length<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        dot(s, self.x, self.x).sqrt()
    }
}
