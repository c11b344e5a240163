//! Sums: the residual `x += y`, and with a factor.

use gleed_model::arithmetic::LANES;

use super::simd::{Kernel, Simd};

/// `x += y`, of one length.
#[derive(Debug)]
pub struct Add<'a> {
    /// Both addend and sum.
    pub x: &'a mut [f32],
    /// The other addend.
    pub y: &'a [f32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.x.len(), self.y.len());
        let (xs, x_rest) = self.x.as_chunks_mut::<LANES>();
        let (ys, y_rest) = self.y.as_chunks::<LANES>();
        for (x, y) in xs.iter_mut().zip(ys) {
            s.store(s.add(s.load(x), s.load(y)), x);
        }
        for (x, y) in x_rest.iter_mut().zip(y_rest) {
            *x += y;
        }
    }
}

/// `x = fma(factor, y, x)`, of one length.
#[derive(Debug)]
pub struct AddScaled<'a> {
    /// Both addend and sum.
    pub x: &'a mut [f32],
    /// What is multiplied.
    pub y: &'a [f32],
    /// What it is multiplied with.
    pub factor: f32,
}

impl Kernel for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.x.len(), self.y.len());
        let factor = s.splat(self.factor);
        let (xs, x_rest) = self.x.as_chunks_mut::<LANES>();
        let (ys, y_rest) = self.y.as_chunks::<LANES>();
        for (x, y) in xs.iter_mut().zip(ys) {
            s.store(s.mul_add(factor, s.load(y), s.load(x)), x);
        }
        s.store_partial(s.mul_add(factor, s.load_partial(y_rest), s.load_partial(x_rest)), x_rest);
    }
}
