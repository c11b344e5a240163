//! The running softmax of several queries over the pages of a span, and the merging of spans.

use gleed_model::arithmetic::{LANES, PAGE, Softmax};

use super::attention::Seen;
use super::math::exp;
use super::simd::{Kernel, Simd};

/// `Softmax::tile` of several queries: turns scores into weights.
#[derive(Debug)]
pub struct SoftmaxTiles<'a> {
    /// The softmax of each query so far; of one that sees nothing it stays as it is.
    pub states: &'a mut [Softmax],
    /// What each query sees.
    pub seen: &'a [Seen],
    /// The scores of each query, then its weights.
    pub scores: &'a mut [[f32; PAGE]],
    /// The correction of what came before, for each query that sees something.
    pub corrections: &'a mut [f32],
}

impl Kernel for SoftmaxTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SoftmaxTiles { states, seen, scores, corrections } = self;
        let states = states.chunks_mut(LANES).zip(corrections.chunks_mut(LANES));
        for ((states, corrections), (seen, scores)) in
            states.zip(seen.chunks(LANES).zip(scores.chunks_mut(LANES)))
        {
            // The corrections of sixteen queries are computed in one go.
            let (mut old, mut new) = ([0.0; LANES], [0.0; LANES]);
            for (q, (seen, scores)) in seen.iter().zip(scores.iter()).enumerate() {
                old[q] = states[q].max;
                new[q] = largest(s, old[q], &scores[seen.range()]);
            }
            let mut factors = [0.0; LANES];
            s.store(exp(s, s.sub(s.load(&old), s.load(&new))), &mut factors);
            // So are the folds of their sums. Of a query that sees nothing all that is not used.
            let mut lanes = [s.splat(0.0); LANES];
            for (q, (seen, scores)) in seen.iter().zip(scores).enumerate() {
                lanes[q] = weights(s, new[q], &mut scores[seen.range()]);
            }
            let mut sums = [0.0; LANES];
            s.store(s.fold_each(&lanes), &mut sums);
            for (q, _) in seen.iter().enumerate().filter(|(_, seen)| !seen.is_empty()) {
                corrections[q] = if old[q] == f32::NEG_INFINITY { 0.0 } else { factors[q] };
                states[q] = Softmax { max: new[q], sum: states[q].sum.mul_add(corrections[q], sums[q]) };
            }
        }
    }
}

/// The largest of `max` and all scores.
#[inline(always)]
fn largest<S: Simd>(s: S, max: f32, scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<LANES>();
    let mut largest = s.splat(max);
    for chunk in chunks {
        largest = s.max(s.load(chunk), largest);
    }
    rest.iter().fold(s.largest(largest), |m, x| m.max(*x))
}

/// Turns scores into weights and returns the lanes of their sum.
#[inline(always)]
fn weights<S: Simd>(s: S, max: f32, scores: &mut [f32]) -> S::F32 {
    let mut lanes = s.splat(0.0);
    // Most pages are seen as a whole: then the compiler knows the number of vectors.
    if let Some(page) = scores.as_mut_array::<PAGE>() {
        let mut weights = [s.splat(0.0); PAGE / LANES];
        let vectors = page.as_chunks_mut::<LANES>().0;
        for i in 0..PAGE / LANES {
            weights[i] = exp(s, s.sub(s.load(&vectors[i]), s.splat(max)));
        }
        for i in 0..PAGE / LANES {
            s.store(weights[i], &mut vectors[i]);
            lanes = s.add(lanes, weights[i]);
        }
        return lanes;
    }
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    for chunk in chunks {
        let weights = exp(s, s.sub(s.load(chunk), s.splat(max)));
        s.store(weights, chunk);
        lanes = s.add(lanes, weights);
    }
    if !rest.is_empty() {
        s.store_partial(exp(s, s.sub(s.load_partial(rest), s.splat(max))), rest);
        // Weights are positive, so the zeros beyond the rest change no lane.
        lanes = s.add(lanes, s.load_partial(rest));
    }
    lanes
}

/// The factor of what a softmax has accumulated when the largest score becomes `max`.
#[inline(always)]
fn correction<S: Simd>(s: S, state: Softmax, max: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    if state.max != f32::NEG_INFINITY {
        s.store(exp(s, s.splat(state.max - max)), &mut lanes);
    }
    lanes[0]
}

/// `Softmax::merge` of one query, with its accumulators.
#[derive(Debug)]
pub struct Merge<'a> {
    /// The softmax over the spans so far.
    pub state: &'a mut Softmax,
    /// `[dim / 16]`.
    pub acc: &'a mut [[f32; LANES]],
    /// The softmax over the next span.
    pub span: Softmax,
    /// `[dim / 16]`.
    pub span_acc: &'a [[f32; LANES]],
}

impl Kernel for Merge<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Merge { state, acc, span, span_acc } = self;
        assert_eq!(acc.len(), span_acc.len());
        let max = state.max.max(span.max);
        let (before, after) = (correction(s, *state, max), correction(s, span, max));
        *state = Softmax { max, sum: state.sum.mul_add(before, span.sum * after) };
        for (acc, span) in acc.iter_mut().zip(span_acc) {
            let span = s.mul(s.load(span), s.splat(after));
            s.store(s.mul_add(s.load(acc), s.splat(before), span), acc);
        }
    }
}

/// `acc · (1/sum)`, the result of one query.
#[derive(Debug)]
pub struct Finish<'a> {
    /// The softmax over all spans.
    pub state: Softmax,
    /// `[dim / 16]`.
    pub acc: &'a [[f32; LANES]],
    /// `[dim]`.
    pub out: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let inverse = 1.0 / self.state.sum;
        for (out, acc) in self.out.chunks_mut(LANES).zip(self.acc) {
            s.store_partial(s.mul(s.load(acc), s.splat(inverse)), out);
        }
    }
}
