//! Linear layers in `f32` arithmetic over many rows: tiles of float weights times rows of activations, each
//! result `arithmetic::dot`, bit for bit.
//!
//! Nothing but the order of the work is special here: what is used again soon is used while it is in a cache.
//! From the outside in, the loops go over blocks of `ROWS` rows of activations, which stay in the second
//! level while all tiles meet them; over tiles; over chunks of columns, of which the block's activations and
//! a few rows of weights stay in the first level; and over groups of weights and of rows whose sums fit the
//! registers. The sixteen lanes of a sum wait in memory from chunk to chunk, so that a chunk ends no sum.

use gleed_model::arithmetic::LANES;

use super::dot::Rows;
use super::simd::{Kernel, Simd};
use super::tile::TILE;

/// Rows of activations of a block.
const ROWS: usize = 8;

/// The most columns of a chunk, whole vectors: eight rows of activations and four of weights are 30 KiB.
const CHUNK: usize = 640;

/// Bytes of weights that are multiplied with a block before the next one: half of a small second level.
const TILE_BYTES: usize = 512 << 10;

/// Vectors of sums that wait between chunks.
pub const WAITING: usize = ROWS * TILE;

/// How many tiles of weights of so many columns are best multiplied together, at most.
pub fn tiles_together(columns: usize) -> usize {
    (TILE_BYTES / size_of::<f32>() / TILE / columns.max(1)).max(1)
}

/// Tiles of weights times all rows of activations: `out[tile][row][i] = dot(weights[tile · 16 + i], x[row])`.
#[derive(Debug)]
pub struct Products<'a> {
    /// Rows of weights, one after the other; the last tile may have fewer than sixteen.
    pub weights: &'a [f32],
    /// Columns of a row, at least one.
    pub columns: usize,
    /// The rows of activations.
    pub x: Rows<'a>,
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
        let Products { weights, columns, x, out, stride, sums } = self;
        assert!(columns > 0 && weights.len().is_multiple_of(columns) && x.count <= stride);
        let sums = &mut sums[..WAITING];
        // Chunks of about the same size.
        let chunk = columns.div_ceil(columns.div_ceil(CHUNK)).next_multiple_of(LANES);
        let mut first = 0;
        while first < x.count {
            let block = Rows {
                values: &x.values[first * x.stride..],
                stride: x.stride,
                count: ROWS.min(x.count - first),
            };
            for (tile, weights) in weights.chunks(TILE * columns).enumerate() {
                let out = &mut out[tile * stride + first..][..block.count];
                let mut start = 0;
                while start < columns {
                    let end = columns.min(start + chunk);
                    let mut chunk =
                        Chunk { weights, columns, start, end, x: block, out: &mut *out, sums: &mut *sums };
                    if S::WIDE {
                        chunk.run::<S, 4, 4>(s)
                    } else {
                        chunk.run::<S, 2, 2>(s)
                    }
                    start = end;
                }
            }
            first += ROWS;
        }
    }
}

/// Some columns of a tile and of a block of rows.
struct Chunk<'a> {
    weights: &'a [f32],
    /// Columns of a whole row.
    columns: usize,
    start: usize,
    end: usize,
    x: Rows<'a>,
    out: &'a mut [[f32; TILE]],
    /// `[row][row of weights]`.
    sums: &'a mut [[f32; LANES]],
}

impl Chunk<'_> {
    /// All rows of weights, `W` at a time, times all rows of activations, `R` at a time.
    #[inline(always)]
    fn run<S: Simd, const W: usize, const R: usize>(&mut self, s: S) {
        let (mut w, count) = (0, self.weights.len() / self.columns);
        while w + W <= count {
            self.rows::<S, W, R>(s, w);
            w += W;
        }
        while w < count {
            self.rows::<S, 1, R>(s, w);
            w += 1;
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const W: usize, const R: usize>(&mut self, s: S, w: usize) {
        let mut r = 0;
        while r + R <= self.x.count {
            self.add::<S, W, R>(s, w, r);
            r += R;
        }
        while r < self.x.count {
            self.add::<S, W, 1>(s, w, r);
            r += 1;
        }
    }

    /// Adds this chunk's columns to `W` times `R` sums, and after the last chunk folds them.
    #[inline(always)]
    fn add<S: Simd, const W: usize, const R: usize>(&mut self, s: S, first_w: usize, first_r: usize) {
        let Chunk { weights, columns, start, end, x, .. } = *self;
        let (length, whole) = (end - start, (end - start) / LANES);
        let (mut w_rows, mut x_rows) = ([&[][..]; W], [&[][..]; R]);
        for (w, row) in w_rows.iter_mut().enumerate() {
            *row = &weights[(first_w + w) * columns + start..][..length];
        }
        for (r, row) in x_rows.iter_mut().enumerate() {
            *row = &x.values[(first_r + r) * x.stride + start..][..length];
        }
        let (mut w_vectors, mut x_vectors) = ([&[][..]; W], [&[][..]; R]);
        for w in 0..W {
            w_vectors[w] = &w_rows[w].as_chunks::<LANES>().0[..whole];
        }
        for r in 0..R {
            x_vectors[r] = &x_rows[r].as_chunks::<LANES>().0[..whole];
        }
        let mut sums = [[s.splat(0.0); W]; R];
        if start > 0 {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (w, sum) in sums.iter_mut().enumerate() {
                    *sum = s.load(&self.sums[(first_r + r) * TILE + first_w + w]);
                }
            }
        }
        for c in 0..whole {
            let mut vectors = [s.splat(0.0); W];
            for w in 0..W {
                vectors[w] = s.load(&w_vectors[w][c]);
            }
            for r in 0..R {
                let x = s.load(&x_vectors[r][c]);
                for w in 0..W {
                    sums[r][w] = s.mul_add(vectors[w], x, sums[r][w]);
                }
            }
        }
        if end < columns {
            for (r, sums) in sums.iter().enumerate() {
                for (w, sum) in sums.iter().enumerate() {
                    s.store(*sum, &mut self.sums[(first_r + r) * TILE + first_w + w]);
                }
            }
            return;
        }
        if whole * LANES < length {
            for r in 0..R {
                for w in 0..W {
                    let (a, b) = (&w_rows[w][whole * LANES..], &x_rows[r][whole * LANES..]);
                    sums[r][w] = s.mul_add_partial(a, b, sums[r][w]);
                }
            }
        }
        if W * R == LANES {
            let mut all = [s.splat(0.0); LANES];
            for r in 0..R {
                for w in 0..W {
                    all[r * W + w] = sums[r][w];
                }
            }
            let mut folded = [0.0; LANES];
            s.store(s.fold_each(&all), &mut folded);
            for r in 0..R {
                self.out[first_r + r][first_w..first_w + W].copy_from_slice(&folded[r * W..][..W]);
            }
        } else {
            for (r, sums) in sums.iter().enumerate() {
                for (w, sum) in sums.iter().enumerate() {
                    self.out[first_r + r][first_w + w] = s.fold(*sum);
                }
            }
        }
    }
}
