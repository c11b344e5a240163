//! Scores that fade with distance (ALiBi): `score - slope · distance`.

use gleed_model::arithmetic::LANES;

use super::simd::{Kernel, Simd};

/// The distance of each lane from the first.
const STEPS: [f32; LANES] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// `arithmetic::faded` of the scores of neighbouring positions.
#[derive(Debug)]
pub struct Fade<'a> {
    /// What a position of distance costs.
    pub slope: f32,
    /// From the query's own position to that of the first score.
    pub distance: f32,
    /// The scores, one position after the other.
    pub scores: &'a mut [f32],
}

impl Kernel for Fade<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (steps, slope) = (s.load(&STEPS), s.splat(-self.slope));
        // Positions are small enough for f32 to have them all.
        let mut first = self.distance;
        let (chunks, rest) = self.scores.as_chunks_mut::<LANES>();
        for chunk in chunks {
            let distance = s.abs(s.add(s.splat(first), steps));
            s.store(s.mul_add(distance, slope, s.load(chunk)), chunk);
            first += LANES as f32;
        }
        let distance = s.abs(s.add(s.splat(first), steps));
        s.store_partial(s.mul_add(distance, slope, s.load_partial(rest)), rest);
    }
}
