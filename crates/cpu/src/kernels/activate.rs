//! The non-linearity of a feed-forward layer: `out = activation(gate) · up`.

use gleed_model::arithmetic::LANES;
use gleed_model::program::Activation;

use super::math::{gelu, silu};
use super::simd::{Kernel, Simd};

/// `out = activation(gate) · up`, or without `up` the activation alone. All of one length.
#[derive(Debug)]
pub struct Activate<'a> {
    /// Which function.
    pub activation: Activation,
    /// Its argument.
    pub gate: &'a [f32],
    /// The factor.
    pub up: Option<&'a [f32]>,
    /// The result.
    pub out: &'a mut [f32],
}

impl Kernel for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Activate { activation, gate, up, out } = self;
        assert_eq!(gate.len(), out.len());
        match (activation, up) {
            (Activation::Silu, None) => apply(
                s,
                gate,
                out,
                #[inline(always)]
                |x| silu(s, x),
            ),
            (Activation::Gelu, None) => apply(
                s,
                gate,
                out,
                #[inline(always)]
                |x| gelu(s, x),
            ),
            (Activation::Silu, Some(up)) => apply_gated(
                s,
                gate,
                up,
                out,
                #[inline(always)]
                |x| silu(s, x),
            ),
            (Activation::Gelu, Some(up)) => apply_gated(
                s,
                gate,
                up,
                out,
                #[inline(always)]
                |x| gelu(s, x),
            ),
        }
    }
}

#[inline(always)]
fn apply<S: Simd>(s: S, gate: &[f32], out: &mut [f32], function: impl Fn(S::F32) -> S::F32) {
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    let (gates, gate_rest) = gate.as_chunks::<LANES>();
    for (out, gate) in chunks.iter_mut().zip(gates) {
        s.store(function(s.load(gate)), out);
    }
    s.store_partial(function(s.load_partial(gate_rest)), rest);
}

#[inline(always)]
fn apply_gated<S: Simd>(
    s: S,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    function: impl Fn(S::F32) -> S::F32,
) {
    assert_eq!(up.len(), out.len());
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    let ((gates, gate_rest), (ups, up_rest)) = (gate.as_chunks::<LANES>(), up.as_chunks::<LANES>());
    for (out, (gate, up)) in chunks.iter_mut().zip(gates.iter().zip(ups)) {
        s.store(s.mul(function(s.load(gate)), s.load(up)), out);
    }
    s.store_partial(s.mul(function(s.load_partial(gate_rest)), s.load_partial(up_rest)), rest);
}
