//! What is done to each value by itself.

use gleed_model::arithmetic::LANES;
use gleed_model::program::Map;

use super::math::{exp, sigmoid, soft_cap, xielu};
use super::simd::{Kernel, Simd};

/// `x = map(x)`.
#[derive(Debug)]
pub struct MapValues<'a> {
    /// What is done.
    pub map: Map,
    /// The values.
    pub x: &'a mut [f32],
}

impl Kernel for MapValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (chunks, rest) = self.x.as_chunks_mut::<LANES>();
        chunks.iter_mut().for_each(|x| s.store(mapped(s, self.map, s.load(x)), x));
        s.store_partial(mapped(s, self.map, s.load_partial(rest)), rest);
    }
}

#[inline(always)]
fn mapped<S: Simd>(s: S, map: Map, x: S::F32) -> S::F32 {
    match map {
        Map::Scale(factor) => s.mul(x, s.splat(factor)),
        Map::SoftCap(cap) => soft_cap(s, x, cap),
        // NaN passes through `min` and `max` as their second operand.
        Map::AtMost(limit) => s.min(s.splat(limit), x),
        Map::Within(limit) => s.min(s.splat(limit), s.max(s.splat(-limit), x)),
        Map::Kept(rate) => exp(s, s.mul(s.splat(-rate), sigmoid(s, x))),
        Map::Xielu(numbers) => xielu(s, x, numbers),
    }
}
