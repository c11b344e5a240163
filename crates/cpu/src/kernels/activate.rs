//! The non-linearity of a feed-forward layer: `activation(x) · up`.

use gleed_model::arithmetic::LANES;
use gleed_model::program::Activation;

use super::math::{clamped_swiglu, exact_gelu, gelu, sigmoid, silu, softplus, squared_relu};
use super::simd::{Kernel, Simd};

/// `x = activation(x) · up`, or without `up` the activation alone.
#[derive(Debug)]
pub struct Activate<'a> {
    /// Which function.
    pub activation: Activation,
    /// Its argument, then the result.
    pub x: &'a mut [f32],
    /// The factor, as long as `x`.
    pub up: Option<&'a [f32]>,
}

impl Kernel for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Activate { activation, x, up } = self;
        match activation {
            Activation::Silu => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| silu(s, x),
            ),
            Activation::Gelu => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| gelu(s, x),
            ),
            Activation::ExactGelu => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| exact_gelu(s, x),
            ),
            Activation::SquaredRelu => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| squared_relu(s, x),
            ),
            Activation::Sigmoid => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| sigmoid(s, x),
            ),
            Activation::Softplus => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| softplus(s, x),
            ),
            Activation::Identity => apply(
                s,
                x,
                up,
                #[inline(always)]
                |x| x,
            ),
            Activation::ClampedSwiglu => apply_clamped_swiglu(s, x, up),
        }
    }
}

#[inline(always)]
fn apply<S: Simd>(s: S, x: &mut [f32], up: Option<&[f32]>, function: impl Fn(S::F32) -> S::F32) {
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    let Some(up) = up else {
        chunks.iter_mut().for_each(|x| s.store(function(s.load(x)), x));
        s.store_partial(function(s.load_partial(rest)), rest);
        return;
    };
    let (ups, up_rest) = up.as_chunks::<LANES>();
    assert_eq!((chunks.len(), rest.len()), (ups.len(), up_rest.len()));
    for (x, up) in chunks.iter_mut().zip(ups) {
        s.store(s.mul(function(s.load(x)), s.load(up)), x);
    }
    s.store_partial(s.mul(function(s.load_partial(rest)), s.load_partial(up_rest)), rest);
}

#[inline(always)]
fn apply_clamped_swiglu<S: Simd>(s: S, x: &mut [f32], up: Option<&[f32]>) {
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    let (ups, up_rest) = up.unwrap_or_default().as_chunks::<LANES>();
    if up.is_some() {
        assert_eq!((chunks.len(), rest.len()), (ups.len(), up_rest.len()));
    }
    for (index, x) in chunks.iter_mut().enumerate() {
        let up = ups.get(index).map_or(
            s.splat(0.0),
            #[inline(always)]
            |up| s.load(up),
        );
        s.store(clamped_swiglu(s, s.load(x), up), x);
    }
    s.store_partial(clamped_swiglu(s, s.load_partial(rest), s.load_partial(up_rest)), rest);
}
