//! Linear layers in `f32` arithmetic over many rows: tiles of float weights times rows of activations, each
//! result `arithmetic::dot`, bit for bit.
//!
//! Nothing but the order of the work is special here: what is used again soon is used while it is in a cache.
//! From the outside in, the loops go over blocks of `ROWS` rows of activations, which stay in the second
//! level while all tiles meet them; over tiles; over chunks of columns, of which the block's activations and
//! a few rows of weights stay in the first level; and over groups of weights and of rows whose sums fit the
//! registers. The sixteen lanes of a sum wait in memory from chunk to chunk, so that a chunk ends no sum.
//!
//! Both sides are packed first: [`GROUP`] rows together, vector by vector. Then they are read from one end to the
//! other, begin at cache lines, and rows at a distance of a power of two do not compete for places of a cache.

use gleed_model::arithmetic::LANES;

use super::chain::Stored;
use super::simd::{Kernel, Simd};
use super::tile::TILE;

/// Rows of activations of a block.
pub const ROWS: usize = 16;

/// Rows that are packed together.
pub const GROUP: usize = 4;

/// The most columns of a chunk, whole vectors: sixteen rows of activations and a group of weights are 40 KiB.
const CHUNK: usize = 512;

/// Bytes of weights that are multiplied with a block before the next one: half of a small second level.
const TILE_BYTES: usize = 512 << 10;

/// Vectors of sums that wait between chunks.
pub const WAITING: usize = ROWS * TILE;

/// How many tiles of weights of so many columns are best multiplied together, at most.
pub fn tiles_together(columns: usize) -> usize {
    (TILE_BYTES / size_of::<f32>() / TILE / columns.max(1)).max(1)
}

/// Vectors that so many rows take when they are packed; the most that there can be where there are too many to count.
pub const fn packed_vectors(rows: usize, columns: usize) -> usize {
    rows.div_ceil(GROUP).saturating_mul(GROUP).saturating_mul(columns.div_ceil(LANES))
}

/// Packs rows: `[row / GROUP][column / 16][row % GROUP]` vectors, with zeros where a row or a column is missing.
#[derive(Debug)]
pub struct PackRows<'a, T> {
    /// From the first value of the first row on.
    pub rows: &'a [T],
    /// Values between the starts of two rows.
    pub stride: usize,
    /// How many rows.
    pub count: usize,
    /// Columns of a row.
    pub columns: usize,
    /// [`packed_vectors`].
    pub out: &'a mut [[f32; LANES]],
}

impl<T: Stored> Kernel for PackRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PackRows { rows, stride, count, columns, out } = self;
        let vectors = columns.div_ceil(LANES);
        let groups = out[..packed_vectors(count, columns)].chunks_exact_mut(GROUP * vectors.max(1));
        for (g, out) in groups.enumerate() {
            for (c, out) in out.chunks_exact_mut(GROUP).enumerate() {
                for (row, out) in (g * GROUP..).zip(out) {
                    let values =
                        if row < count { &rows[row * stride..][..columns][c * LANES..] } else { &[] };
                    match values.first_chunk() {
                        Some(values) => s.store(T::load(s, values), out),
                        None => {
                            *out = [0.0; LANES];
                            out.iter_mut().zip(values).for_each(|(out, value)| *out = T::one(s, *value));
                        }
                    }
                }
            }
        }
    }
}

/// Tiles of weights times all rows of activations: `out[tile][row][i] = dot(weights[tile · 16 + i], x[row])`.
#[derive(Debug)]
pub struct Products<'a> {
    /// Packed rows of weights; the last tile may have fewer than sixteen, in whole groups.
    pub weights: &'a [[f32; LANES]],
    /// Columns of a row, at least one.
    pub columns: usize,
    /// Packed rows of activations.
    pub x: &'a [[f32; LANES]],
    /// How many.
    pub rows: usize,
    /// For each tile one result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
    /// From tile to tile in `out`.
    pub stride: usize,
    /// Room for [`WAITING`] vectors.
    pub sums: &'a mut [[f32; LANES]],
}

impl Kernel for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Products { weights, columns, x, rows, out, stride, sums } = self;
        let vectors = columns.div_ceil(LANES);
        assert!(columns > 0 && weights.len().is_multiple_of(GROUP * vectors) && rows <= stride);
        let (x, sums) = (&x[..packed_vectors(rows, columns)], &mut sums[..WAITING]);
        // Chunks of about the same size.
        let chunk = vectors.div_ceil(vectors.div_ceil(CHUNK / LANES));
        for (block, x) in x.chunks(ROWS * vectors).enumerate() {
            let first = block * ROWS;
            for (tile, weights) in weights.chunks(TILE * vectors).enumerate() {
                let out = &mut out[tile * stride + first..][..ROWS.min(rows - first)];
                let mut start = 0;
                while start < vectors {
                    let end = vectors.min(start + chunk);
                    let (out, sums) = (&mut *out, &mut *sums);
                    let mut chunk = Chunk { weights, columns, start, end, x, out, sums };
                    if S::WIDE {
                        chunk.run::<S, GROUP, GROUP>(s)
                    } else {
                        chunk.run::<S, 2, 2>(s)
                    }
                    start = end;
                }
            }
        }
    }
}

/// Some vectors of a tile and of a block of rows.
struct Chunk<'a> {
    weights: &'a [[f32; LANES]],
    /// Columns of a whole row.
    columns: usize,
    start: usize,
    end: usize,
    x: &'a [[f32; LANES]],
    out: &'a mut [[f32; TILE]],
    /// `[row][row of weights]`.
    sums: &'a mut [[f32; LANES]],
}

impl Chunk<'_> {
    /// All rows of weights, `W` at a time, times all rows of activations, `R` at a time.
    #[inline(always)]
    fn run<S: Simd, const W: usize, const R: usize>(&mut self, s: S) {
        let vectors = self.columns.div_ceil(LANES);
        let (w_rows, x_rows) = (self.weights.len() / vectors, self.x.len() / vectors);
        for w in (0..w_rows).step_by(W) {
            for r in (0..x_rows).step_by(R) {
                self.add::<S, W, R>(s, w, r);
            }
        }
    }

    /// Adds this chunk's columns to `W` times `R` sums, and after the last chunk folds them.
    #[inline(always)]
    fn add<S: Simd, const W: usize, const R: usize>(&mut self, s: S, first_w: usize, first_r: usize) {
        let Chunk { weights, columns, start, end, x, .. } = *self;
        let vectors = columns.div_ceil(LANES);
        let (w_group, x_group) =
            (&group(weights, first_w, vectors)[start..end], &group(x, first_r, vectors)[start..end]);
        // As constants where groups are taken as a whole, so that nothing is left to check in the loop.
        let w_at = if W == GROUP { 0 } else { first_w % GROUP };
        let x_at = if R == GROUP { 0 } else { first_r % GROUP };
        let mut sums = [[s.splat(0.0); W]; R];
        if start > 0 {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (w, sum) in sums.iter_mut().enumerate() {
                    *sum = s.load(&self.sums[(first_r + r) * TILE + first_w + w]);
                }
            }
        }
        // The last vector of a row may be partly empty.
        let rest = if end == vectors { columns % LANES } else { 0 };
        let whole = end - start - usize::from(rest > 0);
        for (w_vectors, x_vectors) in w_group[..whole].iter().zip(&x_group[..whole]) {
            let mut vectors = [s.splat(0.0); W];
            for w in 0..W {
                vectors[w] = s.load(&w_vectors[w_at + w]);
            }
            for r in 0..R {
                let x = s.load(&x_vectors[x_at + r]);
                for w in 0..W {
                    sums[r][w] = s.mul_add(vectors[w], x, sums[r][w]);
                }
            }
        }
        if end < vectors {
            for (r, sums) in sums.iter().enumerate() {
                for (w, sum) in sums.iter().enumerate() {
                    s.store(*sum, &mut self.sums[(first_r + r) * TILE + first_w + w]);
                }
            }
            return;
        }
        if rest > 0 {
            for r in 0..R {
                for w in 0..W {
                    let (a, b) = (&w_group[whole][w_at + w][..rest], &x_group[whole][x_at + r][..rest]);
                    sums[r][w] = s.mul_add_partial(a, b, sums[r][w]);
                }
            }
        }
        let mut folded = [[0.0; W]; R];
        if W * R == LANES {
            let mut all = [s.splat(0.0); LANES];
            for r in 0..R {
                for w in 0..W {
                    all[r * W + w] = sums[r][w];
                }
            }
            let mut lanes = [0.0; LANES];
            s.store(s.fold_each(&all), &mut lanes);
            for (folded, lanes) in folded.iter_mut().zip(lanes.as_chunks().0) {
                *folded = *lanes;
            }
        } else {
            for (folded, sums) in folded.iter_mut().zip(&sums) {
                for (folded, sum) in folded.iter_mut().zip(sums) {
                    *folded = s.fold(*sum);
                }
            }
        }
        for (out, folded) in self.out.iter_mut().skip(first_r).zip(&folded) {
            out[first_w..first_w + W].copy_from_slice(folded);
        }
    }
}

/// The group that a packed row is in: `[vector][GROUP]`.
#[inline(always)]
fn group(rows: &[[f32; LANES]], row: usize, vectors: usize) -> &[[[f32; LANES]; GROUP]] {
    &rows.as_chunks().0[row / GROUP * vectors..][..vectors]
}
