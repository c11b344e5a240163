//! Sums over columns in the order of `arithmetic::dot`: sixteen lanes, folded by halves. Linear layers
//! in `f32` arithmetic are blocks of them.

use gleed_model::arithmetic::LANES;

use super::chain::Stored;
use super::simd::{Kernel, Simd};

/// `arithmetic::dot`.
#[inline(always)]
pub fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let [[result]] = block::<S, f32, 1, 1>(s, [a], [&[]], [b]);
    result
}

/// `arithmetic::sum`.
#[inline(always)]
pub fn sum<S: Simd>(s: S, a: &[f32]) -> f32 {
    let (chunks, rest) = a.as_chunks::<LANES>();
    let mut lanes = s.splat(0.0);
    for chunk in chunks {
        lanes = s.add(lanes, s.load(chunk));
    }
    // Lanes start at +0 and so are never -0: adding +0 where the rest has nothing changes nothing.
    s.fold(s.add(lanes, s.load_partial(rest)))
}

/// The dot products of `W` rows of weights with `R` rows of activations: `W · R` chains at once. Each row
/// of `next` is asked for meanwhile.
#[inline(always)]
fn block<S: Simd, T: Stored, const W: usize, const R: usize>(
    s: S,
    weights: [&[T]; W],
    next: [&[T]; W],
    x: [&[f32]; R],
) -> [[f32; W]; R] {
    let columns = weights[0].len();
    let whole = columns / LANES;
    assert!(weights.iter().all(|row| row.len() == columns) && x.iter().all(|row| row.len() == columns));
    let weight_chunks = weights.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    let x_chunks = x.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    let mut lanes = [[s.splat(0.0); W]; R];
    for c in 0..whole {
        let mut w = [s.splat(0.0); W];
        for i in 0..W {
            w[i] = T::load(s, &weight_chunks[i][c]);
            if let Some(value) = next[i].get(c * LANES) {
                s.prefetch(value);
            }
        }
        for r in 0..R {
            let x = s.load(&x_chunks[r][c]);
            for i in 0..W {
                lanes[r][i] = s.mul_add(w[i], x, lanes[r][i]);
            }
        }
    }
    let mut out = [[0.0; W]; R];
    let rest = whole * LANES..columns;
    for i in 0..W {
        let mut last = [0.0; LANES];
        for (last, weight) in last.iter_mut().zip(&weights[i][rest.clone()]) {
            *last = T::one(s, *weight);
        }
        for r in 0..R {
            if !rest.is_empty() {
                lanes[r][i] = s.mul_add_partial(&last[..rest.len()], &x[r][rest.clone()], lanes[r][i]);
            }
            out[r][i] = s.fold(lanes[r][i]);
        }
    }
    out
}

/// Rows of weights in one call of [`Dots`].
pub const DOT_ROWS: usize = 4;

/// Some rows of weights times all rows of activations:
/// `out[r · out_stride + i] = dot(weights[i], x[r])`.
#[derive(Debug)]
pub struct Dots<'a, T> {
    /// At most [`DOT_ROWS`] rows of equal length, one after the other.
    pub weights: &'a [T],
    /// The rows that will be multiplied next, as many or none: they are fetched meanwhile.
    pub next: &'a [T],
    /// Columns of a row.
    pub columns: usize,
    /// The rows of activations.
    pub x: Rows<'a>,
    /// The result, `[x.count][out_stride]`.
    pub out: &'a mut [f32],
    /// Values between the starts of the result's rows.
    pub out_stride: usize,
}

/// Rows of a matrix at equal distances.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// From the first value of the first row on.
    pub values: &'a [f32],
    /// Values between the starts of two rows.
    pub stride: usize,
    /// How many rows.
    pub count: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, index: usize, columns: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..columns]
    }
}

impl<T: Stored> Kernel for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Dots { weights, next, columns, x, out, out_stride } = self;
        let count = weights.len().checked_div(columns).unwrap_or(0);
        assert!(count <= DOT_ROWS && count <= out_stride);
        if x.count == 0 {
            return;
        }
        let weight = |i: usize| &weights[i * columns..][..columns];
        let next = |i: usize| next.get(i * columns..(i + 1) * columns).unwrap_or_default();
        if count == DOT_ROWS && S::WIDE {
            let weights = [weight(0), weight(1), weight(2), weight(3)];
            rows::<S, T, DOT_ROWS, 4>(s, weights, [next(0), next(1), next(2), next(3)], x, out, out_stride);
        } else {
            // Half as many registers, half as wide: two rows at a time.
            let mut i = 0;
            while i + 2 <= count {
                let (weights, next) = ([weight(i), weight(i + 1)], [next(i), next(i + 1)]);
                rows::<S, T, 2, 2>(s, weights, next, x, &mut out[i..], out_stride);
                i += 2;
            }
            if i < count {
                rows::<S, T, 1, 2>(s, [weight(i)], [next(i)], x, &mut out[i..], out_stride);
            }
        }
    }
}

/// `W` rows of weights times all rows of activations, `R` at a time.
#[inline(always)]
fn rows<S: Simd, T: Stored, const W: usize, const R: usize>(
    s: S,
    weights: [&[T]; W],
    mut next: [&[T]; W],
    x: Rows,
    out: &mut [f32],
    out_stride: usize,
) {
    let columns = weights[0].len();
    let mut r = 0;
    while r + R <= x.count {
        let x = std::array::from_fn(|i| x.row(r + i, columns));
        let result = block::<S, T, W, R>(s, weights, std::mem::replace(&mut next, [&[][..]; W]), x);
        for (i, result) in result.into_iter().enumerate() {
            out[(r + i) * out_stride..][..W].copy_from_slice(&result);
        }
        r += R;
    }
    while r < x.count {
        let next = std::mem::replace(&mut next, [&[][..]; W]);
        let [result] = block::<S, T, W, 1>(s, weights, next, [x.row(r, columns)]);
        out[r * out_stride..][..W].copy_from_slice(&result);
        r += 1;
    }
}
