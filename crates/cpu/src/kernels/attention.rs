//! Attention of several queries over one page of keys and values: scores and weighted values.
//!
//! Both run several chains side by side: a few queries times a few vectors. A vector of keys is sixteen
//! positions of one dimension, a vector of values sixteen columns of one position, so no lane ever meets
//! another.

use std::ops::Range;

use gleed_model::arithmetic::{BLOCK, LANES, PAGE};

use super::chain::{Ahead, Factors, Steps, Stored, chain, widest};
use super::simd::{Kernel, Simd};

/// The most queries whose chains run side by side.
pub const QUERIES: usize = 6;

/// How many of `queries` queries run side by side: blocks of about the same size.
fn block_size(queries: usize) -> usize {
    queries.div_ceil(queries.div_ceil(QUERIES))
}

/// One head's keys or values of a page, as vectors of sixteen: keys `[position / 16][dim]`, values
/// `[position][dim / 16]`.
#[derive(Debug, Clone, Copy)]
pub enum Page<'a> {
    /// As they are.
    F32(&'a [[f32; LANES]]),
    /// Half precision (bits).
    F16(&'a [[u16; LANES]]),
    /// Integers and scales: of keys `[position / 16][dim / 32][16]`, of values `[position][dim / 32]`.
    Q8_0 {
        /// The integers.
        integers: &'a [[i8; LANES]],
        /// One scale for every 32 of a position (fewer in a last, shorter block).
        scales: &'a [f32],
    },
}

/// The positions of a page that a query sees; none where it ends at its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The first.
    pub start: usize,
    /// Behind the last.
    pub end: usize,
}

impl Seen {
    /// What of a page's positions, from `page` on, is among these.
    pub fn of(visible: &Range<usize>, page: usize) -> Seen {
        let (start, end) = (visible.start.max(page), visible.end.min(page + PAGE));
        if start < end { Seen { start: start - page, end: end - page } } else { Seen::default() }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// As a range.
    #[inline(always)]
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Lays queries of `dim` values out for [`Scores`]: in blocks of those that run side by side (the last may
/// have fewer), `[block][dim][query of the block]`.
pub fn interleave(queries: &[f32], dim: usize, out: &mut [f32]) {
    assert_eq!(queries.len(), out.len());
    let size = block_size(queries.len() / dim) * dim;
    for (queries, out) in queries.chunks(size).zip(out.chunks_mut(size)) {
        let count = queries.len() / dim;
        for (q, query) in queries.chunks_exact(dim).enumerate() {
            for (out, x) in out.chunks_exact_mut(count).zip(query) {
                out[q] = *x;
            }
        }
    }
}

/// `scores = arithmetic::score(query, key, scale)` for the positions of a page that each query sees.
#[derive(Debug)]
pub struct Scores<'a> {
    /// As [`interleave`] lays them out.
    pub queries: &'a [f32],
    /// The page.
    pub keys: Page<'a>,
    /// What each query sees; the rest of its scores is undefined.
    pub seen: &'a [Seen],
    /// The factor.
    pub scale: f32,
    /// Memory that will be needed next, and is asked for meanwhile.
    pub ahead: &'a [u8],
    /// One row for each query.
    pub scores: &'a mut [[f32; PAGE]],
}

impl Kernel for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Scores { queries, keys, seen, scale, mut ahead, scores } = self;
        assert!(seen.len() == scores.len() && queries.len().is_multiple_of(seen.len()));
        let dim = queries.len() / seen.len();
        let size = block_size(seen.len());
        let blocks = seen.chunks(size).zip(scores.chunks_mut(size));
        for ((seen, scores), queries) in blocks.zip(queries.chunks(size * dim)) {
            let (start, end) = hull(seen);
            let (first, vectors) = (start / LANES, end.div_ceil(LANES));
            let block = ScoreBlock { queries, keys, dim, scale, first, vectors, ahead, scores };
            ahead = &[];
            match seen.len() {
                1 => s.vectorize(Of::<1, _>(block)),
                2 => s.vectorize(Of::<2, _>(block)),
                3 => s.vectorize(Of::<3, _>(block)),
                4 => s.vectorize(Of::<4, _>(block)),
                5 => s.vectorize(Of::<5, _>(block)),
                _ => s.vectorize(Of::<QUERIES, _>(block)),
            }
        }
    }
}

/// A block of `Q` queries: a function of its own for each number of them, since a compiler takes far longer for all of
/// them in one.
struct Of<const Q: usize, B>(B);

/// From the first position that one of some queries sees to behind the last.
#[inline(always)]
pub(super) fn hull(seen: &[Seen]) -> (usize, usize) {
    let (mut start, mut end) = (PAGE, 0);
    for seen in seen.iter().filter(|seen| !seen.is_empty()) {
        (start, end) = (start.min(seen.start), end.max(seen.end));
    }
    (start.min(end), end)
}

/// The scores of a few queries with the positions of some vectors of sixteen.
struct ScoreBlock<'a> {
    queries: &'a [f32],
    keys: Page<'a>,
    dim: usize,
    scale: f32,
    first: usize,
    /// Behind the last.
    vectors: usize,
    ahead: &'a [u8],
    scores: &'a mut [[f32; PAGE]],
}

impl<const Q: usize> Kernel for Of<Q, ScoreBlock<'_>> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Of(mut block) = self;
        let mut first = block.first;
        while first < block.vectors {
            first += match block.vectors - first {
                4.. if const { widest::<S>(Q) >= 4 } => block.vectors::<S, Q, 4>(s, first),
                2.. if const { widest::<S>(Q) >= 2 } => block.vectors::<S, Q, 2>(s, first),
                _ => block.vectors::<S, Q, 1>(s, first),
            };
        }
    }
}

impl ScoreBlock<'_> {
    /// `N` vectors from the `first` on. Returns `N`.
    #[inline(always)]
    fn vectors<S: Simd, const Q: usize, const N: usize>(&mut self, s: S, first: usize) -> usize {
        let dim = self.dim;
        let queries = &self.queries.as_chunks::<Q>().0[..dim];
        let ahead = Ahead::new(std::mem::take(&mut self.ahead), dim);
        let acc = [[s.splat(0.0); N]; Q];
        let acc = match self.keys {
            Page::F32(keys) => chain(s, queries, KeySteps::new(keys, dim, first), dim, ahead, acc),
            Page::F16(keys) => chain(s, queries, KeySteps::new(keys, dim, first), dim, ahead, acc),
            Page::Q8_0 { integers, scales } => {
                chain_scaled(s, queries, KeySteps::new(integers, dim, first), scales, first, ahead, acc)
            }
        };
        for (acc, scores) in acc.iter().zip(&mut *self.scores) {
            let out = &mut scores.as_chunks_mut::<LANES>().0[first..][..N];
            for (acc, out) in acc.iter().zip(out) {
                s.store(s.mul(*acc, s.splat(self.scale)), out);
            }
        }
        N
    }
}

/// Sixteen positions in each of `N` blocks, dimension by dimension.
#[derive(Clone, Copy)]
struct KeySteps<'a, T, const N: usize> {
    /// `[dim]` each.
    blocks: [&'a [[T; LANES]]; N],
}

impl<'a, T, const N: usize> KeySteps<'a, T, N> {
    #[inline(always)]
    fn new(keys: &'a [[T; LANES]], dim: usize, first: usize) -> Self {
        let mut blocks = [&[][..]; N];
        for n in 0..N {
            blocks[n] = &keys[(first + n) * dim..][..dim];
        }
        KeySteps { blocks }
    }
}

impl<S: Simd, T: Stored, const N: usize> Steps<S, N> for KeySteps<'_, T, N> {
    #[inline(always)]
    fn step(self, s: S, k: usize) -> [S::F32; N] {
        let mut vectors = [s.splat(0.0); N];
        for (vector, block) in vectors.iter_mut().zip(&self.blocks) {
            *vector = T::load(s, &block[k]);
        }
        vectors
    }
}

/// The same with a scale for each position, for up to 32 dimensions.
#[derive(Clone, Copy)]
struct ScaledKeySteps<'a, V, const N: usize> {
    keys: KeySteps<'a, i8, N>,
    scales: [V; N],
}

impl<S: Simd, const N: usize> Steps<S, N> for ScaledKeySteps<'_, S::F32, N> {
    #[inline(always)]
    fn step(self, s: S, k: usize) -> [S::F32; N] {
        let mut vectors = self.keys.step(s, k);
        for (vector, scale) in vectors.iter_mut().zip(&self.scales) {
            *vector = s.mul(*vector, *scale);
        }
        vectors
    }
}

/// [`chain`] over integers with scales, which change every 32 dimensions.
#[inline(always)]
fn chain_scaled<S: Simd, const Q: usize, const N: usize>(
    s: S,
    queries: &[[f32; Q]],
    keys: KeySteps<i8, N>,
    scales: &[f32],
    first: usize,
    ahead: Ahead,
    mut acc: [[S::F32; N]; Q],
) -> [[S::F32; N]; Q] {
    let dim = queries.len();
    let groups = dim.div_ceil(BLOCK);
    let all = &scales.as_chunks::<LANES>().0[first * groups..][..N * groups];
    for group in 0..groups {
        let (start, end) = (group * BLOCK, dim.min((group + 1) * BLOCK));
        let (mut part, mut scales) = (keys, [s.splat(0.0); N]);
        for n in 0..N {
            part.blocks[n] = &keys.blocks[n][start..end];
            scales[n] = s.load(&all[n * groups + group]);
        }
        let steps = ScaledKeySteps { keys: part, scales };
        acc = chain(s, &queries[start..end], steps, end - start, ahead.after(start), acc);
    }
    acc
}

/// `acc = acc · correction`, then `acc = fma(weights[j], values[j], acc)` position by position, for the
/// positions of a page that each query sees.
#[derive(Debug)]
pub struct Accumulate<'a> {
    /// `[query][dim / 16]`; of a query that sees nothing it stays as it is.
    pub acc: &'a mut [[f32; LANES]],
    /// One for each query: what the softmax's tile returned.
    pub corrections: &'a [f32],
    /// What each query sees.
    pub seen: &'a [Seen],
    /// One row for each query.
    pub weights: &'a [[f32; PAGE]],
    /// The page.
    pub values: Page<'a>,
    /// Memory that will be needed next, and is asked for meanwhile.
    pub ahead: &'a [u8],
}

impl Kernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Accumulate { acc, corrections, seen, weights, values, mut ahead } = self;
        assert!(seen.len() == weights.len() && seen.len() == corrections.len());
        assert!(acc.len().is_multiple_of(seen.len()));
        let vectors = acc.len() / seen.len();
        let size = block_size(seen.len());
        let blocks = acc.chunks_mut(size * vectors).zip(weights.chunks(size));
        let blocks = blocks.zip(seen.chunks(size)).zip(corrections.chunks(size));
        for (((acc, weights), seen), corrections) in blocks {
            // What all queries see together, and before and after it one by one.
            let (mut start, mut end) = (0, PAGE);
            for seen in seen {
                (start, end) = (start.max(seen.start), end.min(seen.end));
            }
            if start >= end {
                (start, end) = (PAGE, PAGE);
            }
            // A query is corrected where it begins.
            let mut begun = [1.0; QUERIES];
            begun[..seen.len()].copy_from_slice(corrections);
            for (q, acc) in acc.chunks_mut(vectors).enumerate() {
                let Seen { start: first, end: last } = seen[q];
                if first < last.min(start) {
                    let (corrections, weights) = (&corrections[q..=q], &weights[q..=q]);
                    let (start, end) = (first, last.min(start));
                    let block =
                        ValueBlock { acc, vectors, corrections, weights, start, end, values, ahead: &[] };
                    s.vectorize(Of::<1, _>(block));
                    begun[q] = 1.0;
                }
            }
            if start < end {
                let corrections = &begun[..seen.len()];
                let block = ValueBlock { acc, vectors, corrections, weights, start, end, values, ahead };
                ahead = &[];
                match seen.len() {
                    1 => s.vectorize(Of::<1, _>(block)),
                    2 => s.vectorize(Of::<2, _>(block)),
                    3 => s.vectorize(Of::<3, _>(block)),
                    4 => s.vectorize(Of::<4, _>(block)),
                    5 => s.vectorize(Of::<5, _>(block)),
                    _ => s.vectorize(Of::<QUERIES, _>(block)),
                }
            }
            for (q, acc) in acc.chunks_mut(vectors).enumerate() {
                let (start, end) = (end, seen[q].end);
                if start < end {
                    let (corrections, weights) = (&[1.0], &weights[q..=q]);
                    let block =
                        ValueBlock { acc, vectors, corrections, weights, start, end, values, ahead: &[] };
                    s.vectorize(Of::<1, _>(block));
                }
            }
        }
    }
}

/// The weighted values of a few queries over the positions from `start` to `end`.
struct ValueBlock<'a> {
    acc: &'a mut [[f32; LANES]],
    vectors: usize,
    corrections: &'a [f32],
    weights: &'a [[f32; PAGE]],
    start: usize,
    end: usize,
    values: Page<'a>,
    ahead: &'a [u8],
}

impl<const Q: usize> Kernel for Of<Q, ValueBlock<'_>> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Of(mut block) = self;
        let mut first = 0;
        while first < block.vectors {
            first += match block.vectors - first {
                8.. if const { widest::<S>(Q) >= 8 } => block.columns::<S, Q, 8>(s, first),
                4.. if const { widest::<S>(Q) >= 4 } => block.columns::<S, Q, 4>(s, first),
                2.. if const { widest::<S>(Q) >= 2 } => block.columns::<S, Q, 2>(s, first),
                _ => block.columns::<S, Q, 1>(s, first),
            };
        }
    }
}

impl ValueBlock<'_> {
    /// `N` vectors of columns from the `first` on, which is even. Returns `N`.
    #[inline(always)]
    fn columns<S: Simd, const Q: usize, const N: usize>(&mut self, s: S, first: usize) -> usize {
        let (stride, start, end) = (self.vectors, self.start, self.end.min(PAGE));
        let count = end - start;
        let ahead = Ahead::new(std::mem::take(&mut self.ahead), count);
        let mut acc = [[s.splat(0.0); N]; Q];
        let Some(weights) = self.weights.first_chunk::<Q>() else { unreachable!("a row for each query") };
        let weights = Weights { weights, start };
        for (q, acc) in acc.iter_mut().enumerate() {
            let correction = s.splat(self.corrections[q]);
            let from = &self.acc[q * stride + first..][..N];
            for (acc, from) in acc.iter_mut().zip(from) {
                *acc = s.mul(s.load(from), correction);
            }
        }
        let acc = match self.values {
            Page::F32(values) => chain(
                s,
                weights,
                ValueSteps { values: &values[start * stride..], stride, first },
                count,
                ahead,
                acc,
            ),
            Page::F16(values) => chain(
                s,
                weights,
                ValueSteps { values: &values[start * stride..], stride, first },
                count,
                ahead,
                acc,
            ),
            Page::Q8_0 { integers, scales } => {
                let values = ValueSteps { values: &integers[start * stride..], stride, first };
                let groups = stride.div_ceil(BLOCK / LANES);
                let scales = &scales[start * groups..];
                chain(s, weights, ScaledValueSteps { values, scales, groups }, count, ahead, acc)
            }
        };
        for (q, acc) in acc.iter().enumerate() {
            let out = &mut self.acc[q * stride + first..][..N];
            for (acc, out) in acc.iter().zip(out) {
                s.store(*acc, out);
            }
        }
        N
    }
}

/// The weights of a page's positions.
#[derive(Clone, Copy)]
struct Weights<'a, const Q: usize> {
    weights: &'a [[f32; PAGE]; Q],
    start: usize,
}

impl<const Q: usize> Factors<Q> for Weights<'_, Q> {
    #[inline(always)]
    fn at(self, q: usize, k: usize) -> f32 {
        self.weights[q][self.start + k]
    }
}

/// Some columns, position by position.
#[derive(Clone, Copy)]
struct ValueSteps<'a, T> {
    values: &'a [[T; LANES]],
    /// Vectors of a position.
    stride: usize,
    first: usize,
}

impl<S: Simd, T: Stored, const N: usize> Steps<S, N> for ValueSteps<'_, T> {
    #[inline(always)]
    fn step(self, s: S, k: usize) -> [S::F32; N] {
        let values = &self.values[k * self.stride + self.first..][..N];
        let mut vectors = [s.splat(0.0); N];
        for n in 0..N {
            vectors[n] = T::load(s, &values[n]);
        }
        vectors
    }
}

/// The same with a scale for every two vectors; the first of `values` is even.
#[derive(Clone, Copy)]
struct ScaledValueSteps<'a> {
    values: ValueSteps<'a, i8>,
    scales: &'a [f32],
    /// Scales of a position.
    groups: usize,
}

impl<S: Simd, const N: usize> Steps<S, N> for ScaledValueSteps<'_> {
    #[inline(always)]
    fn step(self, s: S, k: usize) -> [S::F32; N] {
        let mut vectors: [S::F32; N] = self.values.step(s, k);
        let scales = &self.scales[k * self.groups + self.values.first / 2..][..N.div_ceil(2)];
        for n in 0..N {
            vectors[n] = s.mul(vectors[n], s.splat(scales[n / 2]));
        }
        vectors
    }
}
