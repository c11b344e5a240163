//! What adapters add: the product of an upper matrix of few rows with as many values, times a factor.

use gleed_model::arithmetic::LANES;

use super::simd::{Kernel, Simd};

/// `x = fma(scale, Σ hidden[r] · up[r], x)`, as `arithmetic::add_low_rank`, for some columns of the upper matrix.
#[derive(Debug)]
pub struct AddLowRank<'a> {
    /// The factor.
    pub scale: f32,
    /// What the lower matrix gave.
    pub hidden: &'a [f32],
    /// The upper matrix, turned, from the first of these columns on: `[hidden][stride]`.
    pub up: &'a [f32],
    /// Columns of the upper matrix.
    pub stride: usize,
    /// Both addend and sum.
    pub x: &'a mut [f32],
}

impl Kernel for AddLowRank<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let AddLowRank { scale, hidden, up, stride, x } = self;
        let width = x.len();
        assert!(width <= stride && (hidden.is_empty() || up.len() >= (hidden.len() - 1) * stride + width));
        let (scales, (xs, rest)) = (s.splat(scale), x.as_chunks_mut::<LANES>());
        let first = xs.len() * LANES;
        for (i, x) in xs.iter_mut().enumerate() {
            let mut sum = s.splat(0.0);
            for (r, hidden) in hidden.iter().enumerate() {
                if let Some(up) = up[r * stride + i * LANES..].first_chunk() {
                    sum = s.mul_add(s.splat(*hidden), s.load(up), sum);
                }
            }
            s.store(s.mul_add(scales, sum, s.load(x)), x);
        }
        let mut sum = s.splat(0.0);
        for (r, hidden) in hidden.iter().enumerate() {
            let up = &up[r * stride + first..][..rest.len()];
            sum = s.mul_add(s.splat(*hidden), s.load_partial(up), sum);
        }
        s.store_partial(s.mul_add(scales, sum, s.load_partial(rest)), rest);
    }
}
