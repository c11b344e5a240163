//! The running softmax of several queries over the pages of a span, and the merging of spans.

use gleed_model::arithmetic::{LANES, PAGE, Softmax};

use super::math::exp;
use super::simd::{Kernel, Simd};

/// `Softmax::tile` of several queries: turns scores into weights.
#[derive(Debug)]
pub struct SoftmaxTiles<'a> {
    /// The softmax of each query so far; of one that sees nothing it stays as it is.
    pub states: &'a mut [Softmax],
    /// The positions that each query sees.
    pub counts: &'a [usize],
    /// The scores of each query, then its weights.
    pub scores: &'a mut [[f32; PAGE]],
    /// The correction of what came before, for each query that sees something.
    pub corrections: &'a mut [f32],
}

impl Kernel for SoftmaxTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SoftmaxTiles { states, counts, scores, corrections } = self;
        let queries = states.iter_mut().zip(counts).zip(scores).zip(corrections);
        for (((state, count), scores), correction) in queries.filter(|(((_, count), _), _)| **count > 0) {
            *correction = tile(s, state, &mut scores[..*count]);
        }
    }
}

#[inline(always)]
fn tile<S: Simd>(s: S, state: &mut Softmax, scores: &mut [f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    let mut largest = s.splat(state.max);
    for chunk in chunks.iter() {
        largest = s.max(s.load(chunk), largest);
    }
    let max = rest.iter().fold(s.largest(largest), |m, x| m.max(*x));
    let correction = correction(s, *state, max);
    let mut lanes = s.splat(0.0);
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
    *state = Softmax { max, sum: state.sum.mul_add(correction, s.fold(lanes)) };
    correction
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
