//! Attention of many queries over one page: scores and weighted values, as in [`super::attention`] for few.
//!
//! A page is laid out in f32 first, [`BESIDE`] vectors beside each other, so that a step reads one place. Then all
//! queries, a block after the other, meet a part of it that stays in the innermost cache.

use std::ops::Range;

use gleed_model::arithmetic::{BLOCK, LANES, PAGE};

use super::attention::{Page, Seen, hull};
use super::chain::{Ahead, BESIDE, Stored, chain_beside};
use super::simd::{Kernel, Simd};

/// Dimensions of keys that all queries meet before the next: half of a small innermost cache.
const DIMENSIONS: usize = 64;

/// How many of `queries` queries are computed side by side.
pub fn side_by_side(queries: usize) -> usize {
    if queries <= 8 { 4 } else { 6 }
}

/// For how many queries there is room where there are `queries`.
pub fn with_room(queries: usize) -> usize {
    queries.next_multiple_of(side_by_side(queries))
}

/// Vectors of a page that was laid out.
pub fn laid_vectors(key_dim: usize, value_dim: usize) -> usize {
    // What begins at any of the vectors beside each other ends within them.
    (key_dim.max(value_dim.div_ceil(LANES * BESIDE) * PAGE) + 1) * BESIDE
}

/// Lays keys out: `[dim][position / 16]` vectors of sixteen positions.
#[derive(Debug)]
pub struct LayKeys<'a> {
    /// As they are stored.
    pub page: Page<'a>,
    /// The size of a head.
    pub dim: usize,
    /// How many positions; some more may be written.
    pub positions: usize,
    /// [`laid_vectors`].
    pub out: &'a mut [[f32; LANES]],
}

impl Kernel for LayKeys<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let LayKeys { page, dim, positions, out } = self;
        let groups = dim.div_ceil(BLOCK);
        for block in 0..positions.div_ceil(LANES) {
            let out = &mut out[block..];
            match page {
                Page::F32(keys) => lay(s, &keys[block * dim..][..dim], out),
                Page::F16(keys) => lay(s, &keys[block * dim..][..dim], out),
                Page::Q8_0 { integers, scales } => {
                    let scales = &scales.as_chunks::<LANES>().0[block * groups..][..groups];
                    let integers = integers[block * dim..][..dim].chunks(BLOCK);
                    let parts = integers.zip(out.chunks_mut(BLOCK * BESIDE)).zip(scales);
                    for ((integers, out), scale) in parts {
                        let scale = s.load(scale);
                        for (integers, out) in integers.iter().zip(out.iter_mut().step_by(BESIDE)) {
                            s.store(s.mul(s.load_i8(integers), scale), out);
                        }
                    }
                }
            }
        }
    }
}

/// Copies vectors to every [`BESIDE`]-th.
#[inline(always)]
fn lay<S: Simd, T: Stored>(s: S, vectors: &[[T; LANES]], out: &mut [[f32; LANES]]) {
    for (vector, out) in vectors.iter().zip(out.iter_mut().step_by(BESIDE)) {
        s.store(T::load(s, vector), out);
    }
}

/// Lays values out: `[column / 64][position][column / 16 % 4]` vectors of sixteen columns.
#[derive(Debug)]
pub struct LayValues<'a> {
    /// As they are stored.
    pub page: Page<'a>,
    /// Vectors of a position.
    pub vectors: usize,
    /// How many positions.
    pub positions: usize,
    /// [`laid_vectors`].
    pub out: &'a mut [[f32; LANES]],
}

impl Kernel for LayValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let LayValues { page, vectors, positions, out } = self;
        for position in 0..positions {
            let (first, out) = (position * vectors, &mut out[position * BESIDE..]);
            match page {
                Page::F32(values) => lay_columns(s, &values[first..][..vectors], out),
                Page::F16(values) => lay_columns(s, &values[first..][..vectors], out),
                Page::Q8_0 { integers, scales } => {
                    let groups = vectors.div_ceil(BLOCK / LANES);
                    let scales = &scales[position * groups..][..groups];
                    for (vector, integers) in integers[first..][..vectors].iter().enumerate() {
                        let scale = s.splat(scales[vector / (BLOCK / LANES)]);
                        s.store(s.mul(s.load_i8(integers), scale), &mut out[column(vector)]);
                    }
                }
            }
        }
    }
}

/// Where a vector of the first position is laid.
const fn column(vector: usize) -> usize {
    vector / BESIDE * PAGE * BESIDE + vector % BESIDE
}

/// Copies the vectors of a position.
#[inline(always)]
fn lay_columns<S: Simd, T: Stored>(s: S, vectors: &[[T; LANES]], out: &mut [[f32; LANES]]) {
    for (i, vector) in vectors.iter().enumerate() {
        s.store(T::load(s, vector), &mut out[column(i)]);
    }
}

/// Lays queries of `dim` values out, side by side: `[block][dim][query of the block]`, with zeros where a last block has
/// none.
pub fn interleave(queries: &[f32], dim: usize, out: &mut [f32]) {
    let count = queries.len() / dim;
    let size = side_by_side(count);
    let out = &mut out[..with_room(count) * dim];
    out.fill(0.0);
    for (queries, out) in queries.chunks(size * dim).zip(out.chunks_exact_mut(size * dim)) {
        for (q, query) in queries.chunks_exact(dim).enumerate() {
            for (out, x) in out.chunks_exact_mut(size).zip(query) {
                out[q] = *x;
            }
        }
    }
}

/// `scores = arithmetic::score(query, key, scale)` for the positions of a page that each query sees.
#[derive(Debug)]
pub struct ManyScores<'a> {
    /// As [`interleave`] lays them out.
    pub queries: &'a [f32],
    /// As [`LayKeys`] lays them out.
    pub keys: &'a [[f32; LANES]],
    /// What each query sees; the rest of its scores is undefined.
    pub seen: &'a [Seen],
    /// The factor.
    pub scale: f32,
    /// Memory that will be needed next, and is asked for meanwhile.
    pub ahead: &'a [u8],
    /// One row for each query.
    pub scores: &'a mut [[f32; PAGE]],
}

impl Kernel for ManyScores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.seen.len(), self.scores.len());
        match side_by_side(self.seen.len()) {
            4 => self.blocks::<S, 4>(s),
            _ => self.blocks::<S, 6>(s),
        }
    }
}

impl ManyScores<'_> {
    #[inline(always)]
    fn blocks<S: Simd, const Q: usize>(self, s: S) {
        let ManyScores { queries, keys, seen, scale, ahead, scores } = self;
        let count = seen.len().div_ceil(Q);
        let (queries, dim) = (queries.as_chunks::<Q>().0, queries.len() / (count * Q).max(1));
        let ahead = Ahead::new(ahead, count);
        // Parts of about the same size.
        let parts = dim.div_ceil(DIMENSIONS);
        for part in 0..parts {
            let (start, end) = (part * dim / parts, (part + 1) * dim / parts);
            let blocks = queries.chunks(dim).zip(seen.chunks(Q)).zip(scores.chunks_mut(Q));
            for (b, ((queries, seen), scores)) in blocks.enumerate() {
                if part == 0 {
                    ahead.step(s, b);
                }
                let (first, last) = hull(seen);
                let (mut first, last) = (first / LANES, last.div_ceil(LANES));
                let (begins, ends) = (start == 0, end == dim);
                let keys = &keys[start * BESIDE..(end + 1) * BESIDE];
                let mut block =
                    ScoreBlock { queries: &queries[start..end], keys, begins, ends, scale, scores };
                while first < last {
                    first += match last - first {
                        4.. if S::WIDE => block.vectors::<S, 4>(s, first),
                        2.. if S::WIDE => block.vectors::<S, 2>(s, first),
                        _ => block.vectors::<S, 1>(s, first),
                    };
                }
            }
        }
    }
}

/// A block of queries over some dimensions.
struct ScoreBlock<'a, const Q: usize> {
    queries: &'a [[f32; Q]],
    keys: &'a [[f32; LANES]],
    /// Whether these are the first dimensions, and the last.
    begins: bool,
    ends: bool,
    scale: f32,
    scores: &'a mut [[f32; PAGE]],
}

impl<const Q: usize> ScoreBlock<'_, Q> {
    /// `N` vectors of positions from the `first` on. Returns `N`.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(&mut self, s: S, first: usize) -> usize {
        let mut acc = [[s.splat(0.0); N]; Q];
        if !self.begins {
            for (q, acc) in acc.iter_mut().enumerate() {
                if let Some(scores) = self.scores.get(q) {
                    let scores = &scores.as_chunks::<LANES>().0[first..][..N];
                    for n in 0..N {
                        acc[n] = s.load(&scores[n]);
                    }
                }
            }
        }
        let keys = &self.keys[first..][..self.queries.len() * BESIDE];
        let acc = chain_beside(s, keys.as_chunks().0, self.queries, acc);
        for (q, acc) in acc.iter().enumerate() {
            if let Some(scores) = self.scores.get_mut(q) {
                let scores = &mut scores.as_chunks_mut::<LANES>().0[first..][..N];
                for n in 0..N {
                    let sum = if self.ends { s.mul(acc[n], s.splat(self.scale)) } else { acc[n] };
                    s.store(sum, &mut scores[n]);
                }
            }
        }
        N
    }
}

/// `acc = acc · correction`, then `acc = fma(weights[j], values[j], acc)` position by position, for the
/// positions of a page that each query sees.
#[derive(Debug)]
pub struct ManyValues<'a> {
    /// `[query][dim / 16]`; of a query that sees nothing it stays as it is.
    pub acc: &'a mut [[f32; LANES]],
    /// One for each query: what the softmax's tile returned.
    pub corrections: &'a [f32],
    /// What each query sees.
    pub seen: &'a [Seen],
    /// One row for each query [`with_room`].
    pub weights: &'a [[f32; PAGE]],
    /// As [`LayValues`] lays them out.
    pub values: &'a [[f32; LANES]],
    /// Memory that will be needed next, and is asked for meanwhile.
    pub ahead: &'a [u8],
}

impl Kernel for ManyValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert!(self.seen.len() == self.corrections.len() && self.acc.len().is_multiple_of(self.seen.len()));
        match side_by_side(self.seen.len()) {
            4 => self.blocks::<S, 4>(s),
            _ => self.blocks::<S, 6>(s),
        }
    }
}

impl ManyValues<'_> {
    #[inline(always)]
    fn blocks<S: Simd, const Q: usize>(self, s: S) {
        let ManyValues { acc, corrections, seen, weights, values, ahead } = self;
        let vectors = acc.len() / seen.len();
        let ahead = Ahead::new(ahead, seen.len().div_ceil(Q));
        for first in (0..vectors).step_by(BESIDE) {
            let values = &values[first * PAGE..];
            let width = BESIDE.min(vectors - first);
            let blocks = acc.chunks_mut(Q * vectors).zip(weights.as_chunks::<Q>().0);
            let blocks = blocks.zip(seen.chunks(Q)).zip(corrections.chunks(Q));
            for (b, (((acc, weights), seen), corrections)) in blocks.enumerate() {
                if first == 0 {
                    ahead.step(s, b);
                }
                // Queries that there are not see nothing, and what sees nothing is not corrected.
                let mut sees = [Seen::default(); Q];
                sees[..seen.len()].copy_from_slice(seen);
                let mut factors = [1.0; Q];
                for (factor, (seen, correction)) in factors.iter_mut().zip(seen.iter().zip(corrections)) {
                    if !seen.is_empty() {
                        *factor = *correction;
                    }
                }
                let (from, to) = hull(seen);
                let block = ValueBlock { acc, vectors, first, factors, weights, from, to, sees, values };
                block.run(s, width);
            }
        }
    }
}

/// Some vectors of columns of a block of queries, over some positions.
struct ValueBlock<'a, const Q: usize> {
    /// Of the queries that there are.
    acc: &'a mut [[f32; LANES]],
    /// Vectors of a query.
    vectors: usize,
    /// The first of the vectors beside each other.
    first: usize,
    /// What the sums so far are multiplied with.
    factors: [f32; Q],
    weights: &'a [[f32; PAGE]; Q],
    /// From the first position that one of them sees to behind the last.
    from: usize,
    to: usize,
    sees: [Seen; Q],
    values: &'a [[f32; LANES]],
}

impl<const Q: usize> ValueBlock<'_, Q> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S, width: usize) {
        if self.from >= self.to {
            return;
        }
        let mut beside = 0;
        while beside < width {
            beside += match width - beside {
                4.. if S::WIDE => self.columns::<S, 4>(s, beside),
                2.. if S::WIDE => self.columns::<S, 2>(s, beside),
                _ => self.columns::<S, 1>(s, beside),
            };
        }
    }

    /// `N` vectors of those beside each other. Returns `N`.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(&mut self, s: S, beside: usize) -> usize {
        let (from, to) = (self.from, self.to.min(PAGE));
        let at = |q: usize| q * self.vectors + self.first + beside;
        let mut acc = [[s.splat(0.0); N]; Q];
        for (q, acc) in acc.iter_mut().enumerate() {
            if let Some(sums) = self.acc.get(at(q)..at(q) + N) {
                for n in 0..N {
                    acc[n] = s.mul(s.load(&sums[n]), s.splat(self.factors[q]));
                }
            }
        }
        // What all see together, between what only some do.
        let (mut start, mut end) = (from, to);
        for seen in &self.sees[..self.acc.len() / self.vectors] {
            (start, end) = (start.max(seen.start), end.min(seen.end));
        }
        if start >= end {
            (start, end) = (to, to);
        }
        let values = &self.values[beside..][..PAGE * BESIDE].as_chunks().0;
        let of =
            |range: Range<usize>| Weighted { values: &values[range.clone()], weights: self.weights, range };
        let acc = of(from..start).add_seen(s, &self.sees, acc);
        let acc = of(start..end).add(s, acc);
        let acc = of(end..to).add_seen(s, &self.sees, acc);
        for (q, acc) in acc.iter().enumerate() {
            if let Some(out) = self.acc.get_mut(at(q)..at(q) + N) {
                for n in 0..N {
                    s.store(acc[n], &mut out[n]);
                }
            }
        }
        N
    }
}

/// Values of some positions, and the weights of `Q` queries.
struct Weighted<'a, const Q: usize> {
    values: &'a [[[f32; LANES]; BESIDE]],
    weights: &'a [[f32; PAGE]; Q],
    range: Range<usize>,
}

impl<const Q: usize> Weighted<'_, Q> {
    /// Adds them to the sums of all queries.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "so measured: sums stay in registers")]
    fn add<S: Simd, const N: usize>(self, s: S, mut acc: [[S::F32; N]; Q]) -> [[S::F32; N]; Q] {
        for (position, values) in self.range.zip(self.values) {
            let mut vectors = [s.splat(0.0); N];
            for n in 0..N {
                vectors[n] = s.load(&values[n]);
            }
            for q in 0..Q {
                let weight = s.splat(self.weights[q][position]);
                for n in 0..N {
                    acc[q][n] = s.mul_add(weight, vectors[n], acc[q][n]);
                }
            }
        }
        acc
    }

    /// Adds them to the sums of those queries that see them.
    #[inline(always)]
    fn add_seen<S: Simd, const N: usize>(
        self,
        s: S,
        sees: &[Seen; Q],
        mut acc: [[S::F32; N]; Q],
    ) -> [[S::F32; N]; Q] {
        for (position, values) in self.range.zip(self.values) {
            for (q, acc) in acc.iter_mut().enumerate() {
                if sees[q].range().contains(&position) {
                    let weight = s.splat(self.weights[q][position]);
                    for n in 0..N {
                        acc[n] = s.mul_add(weight, s.load(&values[n]), acc[n]);
                    }
                }
            }
        }
        acc
    }
}
