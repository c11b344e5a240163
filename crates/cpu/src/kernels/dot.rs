//! Sums over columns in the order of `arithmetic::dot`: sixteen lanes, folded by halves. Linear layers
//! in `f32` arithmetic are blocks of them.

use gleed_model::arithmetic::LANES;

use super::simd::{Kernel, Simd};

/// `arithmetic::dot`.
#[inline(always)]
pub fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let [[result]] = block::<S, 1, 1>(s, [a], [b]);
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

/// The dot products of `W` rows of weights with `R` rows of activations: `W · R` chains at once.
#[inline(always)]
fn block<S: Simd, const W: usize, const R: usize>(
    s: S,
    weights: [&[f32]; W],
    x: [&[f32]; R],
) -> [[f32; W]; R] {
    let columns = weights[0].len();
    let whole = columns / LANES;
    assert!(weights.iter().chain(&x).all(|row| row.len() == columns));
    let weight_chunks = weights.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    let x_chunks = x.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    let mut lanes = [[s.splat(0.0); W]; R];
    for c in 0..whole {
        let mut w = [s.splat(0.0); W];
        for i in 0..W {
            w[i] = s.load(&weight_chunks[i][c]);
        }
        for r in 0..R {
            let x = s.load(&x_chunks[r][c]);
            for i in 0..W {
                lanes[r][i] = s.mul_add(w[i], x, lanes[r][i]);
            }
        }
    }
    let mut out = [[0.0; W]; R];
    for r in 0..R {
        for i in 0..W {
            if whole * LANES < columns {
                let rest = whole * LANES..;
                lanes[r][i] = s.mul_add_partial(&weights[i][rest.clone()], &x[r][rest], lanes[r][i]);
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
pub struct Dots<'a> {
    /// At most [`DOT_ROWS`] rows of equal length, one after the other.
    pub weights: &'a [f32],
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

impl Kernel for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Dots { weights, columns, x, out, out_stride } = self;
        let count = weights.len().checked_div(columns).unwrap_or(0);
        assert!(count <= DOT_ROWS && count <= out_stride);
        if x.count == 0 {
            return;
        }
        let weight = |i: usize| &weights[i * columns..][..columns];
        if count == DOT_ROWS && S::WIDE {
            rows::<S, DOT_ROWS, 4>(s, [weight(0), weight(1), weight(2), weight(3)], x, out, out_stride);
        } else {
            // Half as many registers, half as wide: two rows at a time.
            let mut i = 0;
            while i + 2 <= count {
                rows::<S, 2, 2>(s, [weight(i), weight(i + 1)], x, &mut out[i..], out_stride);
                i += 2;
            }
            if i < count {
                rows::<S, 1, 2>(s, [weight(i)], x, &mut out[i..], out_stride);
            }
        }
    }
}

/// `W` rows of weights times all rows of activations, `R` at a time.
#[inline(always)]
fn rows<S: Simd, const W: usize, const R: usize>(
    s: S,
    weights: [&[f32]; W],
    x: Rows,
    out: &mut [f32],
    out_stride: usize,
) {
    let columns = weights[0].len();
    let mut r = 0;
    while r + R <= x.count {
        let result = block::<S, W, R>(s, weights, std::array::from_fn(|i| x.row(r + i, columns)));
        for (i, result) in result.into_iter().enumerate() {
            out[(r + i) * out_stride..][..W].copy_from_slice(&result);
        }
        r += R;
    }
    while r < x.count {
        let [result] = block::<S, W, 1>(s, weights, [x.row(r, columns)]);
        out[r * out_stride..][..W].copy_from_slice(&result);
        r += 1;
    }
}
