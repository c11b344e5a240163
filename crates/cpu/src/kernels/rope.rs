//! Rotary position embedding of one head, in place.

use gleed_model::arithmetic::LANES;
use gleed_model::rope::Pairing;

use super::simd::{Kernel, Simd};

/// Rotates the leading pairs of a head by the angles of its position.
#[derive(Debug)]
pub struct Rotate<'a> {
    /// The head; at least twice as long as there are angles, the rest passes through.
    pub head: &'a mut [f32],
    /// Which elements form a pair.
    pub pairing: Pairing,
    /// One cosine per pair.
    pub cos: &'a [f32],
    /// One sine per pair.
    pub sin: &'a [f32],
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Rotate { head, pairing, cos, sin } = self;
        let pairs = cos.len();
        assert!(sin.len() == pairs && head.len() >= 2 * pairs);
        let rotated = &mut head[..2 * pairs];
        match pairing {
            Pairing::Interleaved => {
                for (x, (cos, sin)) in rotated.as_chunks_mut::<2>().0.iter_mut().zip(cos.iter().zip(sin)) {
                    *x = rotate(*x, *cos, *sin);
                }
            }
            Pairing::SplitHalf => {
                let (first, second) = rotated.split_at_mut(pairs);
                let (firsts, first_rest) = first.as_chunks_mut::<LANES>();
                let (seconds, second_rest) = second.as_chunks_mut::<LANES>();
                let ((coses, cos_rest), (sines, sin_rest)) =
                    (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
                let angles = coses.iter().zip(sines);
                for ((first, second), (cos, sin)) in firsts.iter_mut().zip(seconds).zip(angles) {
                    let (x0, x1) = (s.load(first), s.load(second));
                    let (cos, sin) = (s.load(cos), s.load(sin));
                    s.store(s.mul_sub(x0, cos, s.mul(x1, sin)), first);
                    s.store(s.mul_add(x0, sin, s.mul(x1, cos)), second);
                }
                let angles = cos_rest.iter().zip(sin_rest);
                for ((first, second), (cos, sin)) in first_rest.iter_mut().zip(second_rest).zip(angles) {
                    [*first, *second] = rotate([*first, *second], *cos, *sin);
                }
            }
        }
    }
}

/// `arithmetic::rotate`.
#[inline(always)]
fn rotate([x0, x1]: [f32; 2], cos: f32, sin: f32) -> [f32; 2] {
    [x0.mul_add(cos, -(x1 * sin)), x0.mul_add(sin, x1 * cos)]
}
