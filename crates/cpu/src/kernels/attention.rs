//! Attention over one tile (page) of keys and values: scores, running softmax, weighted values.

use gleed_model::arithmetic::{LANES, Softmax};

use super::dot::dot;
use super::math::exp;
use super::simd::{Kernel, Simd};

/// `scores[j] = dot(query, keys[j]) · scale`.
#[derive(Debug)]
pub struct Scores<'a> {
    /// `[dim]`.
    pub query: &'a [f32],
    /// `[positions][dim]`, for at least as many positions as there are scores.
    pub keys: &'a [f32],
    /// The factor.
    pub scale: f32,
    /// One per position.
    pub scores: &'a mut [f32],
}

impl Kernel for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Scores { query, keys, scale, scores } = self;
        let dim = query.len();
        assert!(keys.len() >= scores.len() * dim);
        let (chunks, rest) = scores.as_chunks_mut::<LANES>();
        let done = chunks.len() * LANES;
        for (c, out) in chunks.iter_mut().enumerate() {
            let keys = &keys[c * LANES * dim..][..LANES * dim];
            let mut lanes = [s.splat(0.0); LANES];
            for quarter in 0..4 {
                let keys = &keys[quarter * 4 * dim..][..4 * dim];
                let four = four_dots(s, query, keys);
                lanes[4 * quarter..][..4].copy_from_slice(&four);
            }
            s.store(s.mul(s.fold_each(&lanes), s.splat(scale)), out);
        }
        for (j, score) in rest.iter_mut().enumerate() {
            *score = dot(s, query, &keys[(done + j) * dim..][..dim]) * scale;
        }
    }
}

/// The lanes of the dot products of a query with four keys, not yet folded.
#[inline(always)]
fn four_dots<S: Simd>(s: S, query: &[f32], keys: &[f32]) -> [S::F32; 4] {
    let dim = query.len();
    let (queries, query_rest) = query.as_chunks::<LANES>();
    let mut lanes = [s.splat(0.0); 4];
    let key = |j: usize| &keys[j * dim..][..dim];
    let mut chunks = [&[][..]; 4];
    for (j, chunks) in chunks.iter_mut().enumerate() {
        *chunks = &key(j).as_chunks::<LANES>().0[..queries.len()];
    }
    for (c, query) in queries.iter().enumerate() {
        let q = s.load(query);
        for j in 0..4 {
            lanes[j] = s.mul_add(q, s.load(&chunks[j][c]), lanes[j]);
        }
    }
    if !query_rest.is_empty() {
        for (j, lanes) in lanes.iter_mut().enumerate() {
            *lanes = s.mul_add_partial(query_rest, &key(j)[queries.len() * LANES..], *lanes);
        }
    }
    lanes
}

/// `Softmax::tile`: turns scores into weights and returns the correction of what came before.
#[derive(Debug)]
pub struct SoftmaxTile<'a> {
    /// The softmax so far.
    pub state: &'a mut Softmax,
    /// The tile's scores, then its weights.
    pub scores: &'a mut [f32],
}

impl Kernel for SoftmaxTile<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let SoftmaxTile { state, scores } = self;
        let (chunks, rest) = scores.as_chunks_mut::<LANES>();
        let mut largest = s.splat(state.max);
        for chunk in chunks.iter() {
            largest = s.max(s.load(chunk), largest);
        }
        let max = rest.iter().fold(s.largest(largest), |m, x| m.max(*x));
        let mut correction = [0.0; LANES];
        if state.max != f32::NEG_INFINITY {
            s.store(exp(s, s.splat(state.max - max)), &mut correction);
        }
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
        state.sum = state.sum.mul_add(correction[0], s.fold(lanes));
        state.max = max;
        correction[0]
    }
}

/// `acc = acc · correction`, then `acc = fma(weights[j], values[j], acc)` position by position.
#[derive(Debug)]
pub struct Accumulate<'a> {
    /// `[dim]`.
    pub acc: &'a mut [f32],
    /// What the softmax's tile returned.
    pub correction: f32,
    /// One per position.
    pub weights: &'a [f32],
    /// `[positions][dim]`, for at least as many positions as there are weights.
    pub values: &'a [f32],
}

impl Kernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Accumulate { acc, correction, weights, values } = self;
        let dim = acc.len();
        assert!(values.len() >= weights.len() * dim);
        let mut column = 0;
        while column + 4 * LANES <= dim {
            columns::<S, 4>(s, acc, correction, weights, values, column);
            column += 4 * LANES;
        }
        while column + LANES <= dim {
            columns::<S, 1>(s, acc, correction, weights, values, column);
            column += LANES;
        }
        if column < dim {
            let rest = &mut acc[column..];
            let mut lanes = s.mul(s.load_partial(rest), s.splat(correction));
            for (j, weight) in weights.iter().enumerate() {
                let value = s.load_partial(&values[j * dim + column..][..rest.len()]);
                lanes = s.mul_add(s.splat(*weight), value, lanes);
            }
            s.store_partial(lanes, rest);
        }
    }
}

/// `N` times sixteen columns, kept in registers over all positions.
#[inline(always)]
fn columns<S: Simd, const N: usize>(
    s: S,
    acc: &mut [f32],
    correction: f32,
    weights: &[f32],
    values: &[f32],
    column: usize,
) {
    let dim = acc.len();
    let acc = &mut acc[column..].as_chunks_mut::<LANES>().0[..N];
    let mut lanes = [s.splat(0.0); N];
    for n in 0..N {
        lanes[n] = s.mul(s.load(&acc[n]), s.splat(correction));
    }
    for (weight, values) in weights.iter().zip(values.chunks_exact(dim)) {
        let values = &values[column..].as_chunks::<LANES>().0[..N];
        for n in 0..N {
            lanes[n] = s.mul_add(s.splat(*weight), s.load(&values[n]), lanes[n]);
        }
    }
    for n in 0..N {
        s.store(lanes[n], &mut acc[n]);
    }
}
