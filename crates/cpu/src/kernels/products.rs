//! Linear layers in `f32` arithmetic over many rows: tiles of float weights times rows of activations, each
//! result `arithmetic::dot`, bit for bit.
//!
//! The sixteen lanes of a sum are sixteen chains over every sixteenth column, and need not run side by side. Here they
//! run one after the other, and what is side by side are sixteen rows of weights: a vector of these, of some tiles,
//! times the activation of each of some rows, so that nothing is shuffled and few loads serve many products. What a
//! lane's columns have of the weights stays in the innermost cache while all rows of a block meet it. Lanes are folded
//! as soon as both are there, in the order of `arithmetic::fold`.
//!
//! Both sides are packed first, see [`PackRows`].

use gleed_model::arithmetic::LANES;

use super::chain::{BESIDE, Stored, chain_beside};
use super::simd::{Kernel, Simd};
use super::tile::TILE;

/// Rows that are packed together.
pub const GROUP: usize = LANES;

/// Tiles of weights that are packed together, and multiplied together where there are registers for them.
pub const TILES: usize = BESIDE;

/// Rows of activations of a block.
pub const ROWS: usize = 4 * GROUP;

/// The most steps of a chain before other rows have their turn: their vectors of four tiles are half of a small
/// innermost cache.
const STEPS: usize = 64;

/// Bytes of weights that are multiplied with a block before the next one: half of a small second level.
const TILE_BYTES: usize = 1 << 20;

/// Sums of one lane, two, four and eight wait for as many others; and any for more of their columns.
const LEVELS: usize = LANES.ilog2() as usize + 1;

/// Vectors of sums that wait.
pub const WAITING: usize = LEVELS * ROWS * TILES;

/// How many tiles of weights of `columns` columns are best multiplied together, at most.
pub fn tiles_together(columns: usize) -> usize {
    (TILE_BYTES / size_of::<f32>() / TILE / columns.max(1)).max(1)
}

/// Vectors of a lane's columns of packed rows: at least one more than it has, so that what begins at any row ends
/// within them, and an odd number, so that lanes do not compete for places of a cache.
const fn lane_vectors(columns: usize) -> usize {
    columns.div_ceil(LANES).saturating_add(1) | 1
}

/// Vectors that `rows` rows take when they are packed; the most that there can be where there are too many to count.
pub const fn packed_vectors(rows: usize, columns: usize) -> usize {
    rows.div_ceil(GROUP).saturating_mul(LANES).saturating_mul(lane_vectors(columns))
}

/// The same of tiles of weights.
pub const fn packed_tile_vectors(tiles: usize, columns: usize) -> usize {
    packed_vectors(tiles.next_multiple_of(TILES) * TILE, columns)
}

/// Packs a group of rows: `[column % 16][column / 16]` vectors of sixteen rows, with zeros where a row is missing.
/// Each lane's columns are followed by vectors that have no meaning.
#[derive(Debug)]
pub struct PackRows<'a, T> {
    /// From the first value of the first row on.
    pub rows: &'a [T],
    /// Values between the starts of two rows.
    pub stride: usize,
    /// How many rows: at most [`GROUP`].
    pub count: usize,
    /// Columns of a row.
    pub columns: usize,
    /// [`packed_vectors`], or with other tiles beside them.
    pub out: &'a mut [[f32; LANES]],
    /// Which of how many tiles it is, between whose vectors those of others are.
    pub beside: (usize, usize),
}

impl<T: Stored> Kernel for PackRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PackRows { rows, stride, count, columns, out, beside: (tile, tiles) } = self;
        let lane = lane_vectors(columns) * tiles;
        assert!(count <= GROUP && tile < tiles && out.len() >= LANES * lane);
        let (mut square, mut turned) = ([[0; LANES]; GROUP], [[0; GROUP]; LANES]);
        for step in 0..columns.div_ceil(LANES) {
            for (r, to) in square[..count].iter_mut().enumerate() {
                let to: &mut [f32; LANES] = bytemuck::cast_mut(to);
                let values = &rows[r * stride..][..columns][step * LANES..];
                match values.first_chunk() {
                    Some(values) => s.store(T::load(s, values), to),
                    None => to.iter_mut().zip(values).for_each(|(to, value)| *to = T::one(s, *value)),
                }
            }
            s.transpose(square.each_ref(), &mut turned);
            for (out, turned) in out[step * tiles + tile..].iter_mut().step_by(lane).zip(&turned) {
                *out = bytemuck::cast(*turned);
            }
        }
    }
}

/// Tiles of weights times all rows of activations: `out[tile][row][i] = dot(weights[tile · 16 + i], x[row])`.
#[derive(Debug)]
pub struct Products<'a> {
    /// Packed rows of weights, [`TILES`] tiles beside each other; results of rows that are missing in a tile are zeros.
    pub weights: &'a [[f32; LANES]],
    /// How many tiles.
    pub tiles: usize,
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
        let Products { weights, tiles, columns, x, rows, out, stride, sums } = self;
        let x = &x[..packed_vectors(rows, columns)];
        let weights = &weights[..packed_tile_vectors(tiles, columns)];
        assert!(columns > 0 && rows <= stride);
        for (block, x) in x.chunks(packed_vectors(ROWS, columns)).enumerate() {
            let first = block * ROWS;
            let rows = ROWS.min(rows - first);
            for (set, weights) in weights.chunks(packed_tile_vectors(TILES, columns)).enumerate() {
                let mut tile = set * TILES;
                let end = tiles.min(tile + TILES);
                while tile < end {
                    let out = &mut out[tile * stride + first..];
                    let mut part = Part { weights, tile: tile % TILES, columns, x, rows, out, stride, sums };
                    tile += match end - tile {
                        // As many sums as there are registers for, whatever the tiles.
                        4.. if S::WIDE => part.run::<S, 4, 6, 4>(s),
                        2.. if S::WIDE => part.run::<S, 2, 8, 8>(s),
                        _ if S::WIDE => part.run::<S, 1, 16, 16>(s),
                        _ => part.run::<S, 1, 6, 4>(s),
                    };
                }
            }
        }
    }
}

/// Some tiles of those that are packed together, and a block of rows.
struct Part<'a> {
    weights: &'a [[f32; LANES]],
    /// The first.
    tile: usize,
    columns: usize,
    x: &'a [[f32; LANES]],
    rows: usize,
    out: &'a mut [[f32; TILE]],
    stride: usize,
    sums: &'a mut [[f32; LANES]],
}

impl Part<'_> {
    /// `T` tiles times all rows, `R` at a time, of which `LAST` are left at the end of a group. Returns `T`.
    #[inline(always)]
    fn run<S: Simd, const T: usize, const R: usize, const LAST: usize>(&mut self, s: S) -> usize {
        for place in 0..LANES {
            let lane = fold_order(place);
            let steps = (self.columns + LANES - 1 - lane) / LANES;
            // Chains of about the same size, also where a lane has no columns.
            let turns = steps.div_ceil(STEPS).max(1);
            for turn in 0..turns {
                let columns = Columns {
                    place,
                    start: turn * steps / turns,
                    end: (turn + 1) * steps / turns,
                    ends: turn + 1 == turns,
                };
                for group in (0..self.rows).step_by(GROUP) {
                    for row in (0..GROUP.min(self.rows - group)).step_by(R) {
                        if row + R <= GROUP {
                            self.add::<S, T, R>(s, columns, group, row);
                        } else {
                            self.add::<S, T, LAST>(s, columns, group, row);
                        }
                    }
                }
            }
        }
        T
    }

    /// Adds some columns of a lane to the sums of `R` rows of a group, and after the last of them folds the lane.
    #[inline(always)]
    fn add<S: Simd, const T: usize, const R: usize>(
        &mut self,
        s: S,
        columns: Columns,
        group: usize,
        row: usize,
    ) {
        let Columns { place, start, end, ends } = columns;
        let size = lane_vectors(self.columns);
        let (column, first) = (fold_order(place) * size + start, group + row);
        // What begins with these tiles, and with these rows.
        let weights = &self.weights[column * TILES + self.tile..][..(end - start) * TILES];
        let x = &self.x[group * size + column..].as_flattened()[row..][..(end - start) * GROUP];
        // The lanes before have left what they were folded to in as many levels as end here, and the next one is free.
        let folds = place.trailing_ones() as usize;
        let place_of = |level: usize| level * ROWS * TILES + first * T..;
        let mut acc = [[s.splat(0.0); T]; R];
        if start > 0 {
            let waiting: &[[[f32; LANES]; T]; R] = block(&self.sums[place_of(folds)]);
            for r in 0..R {
                for t in 0..T {
                    acc[r][t] = s.load(&waiting[r][t]);
                }
            }
        }
        let mut acc = chain_beside(s, weights.as_chunks().0, x.as_chunks::<GROUP>().0, acc);
        for folded in 0..if ends { folds } else { 0 } {
            let waiting: &[[[f32; LANES]; T]; R] = block(&self.sums[place_of(folded)]);
            for r in 0..R {
                for t in 0..T {
                    acc[r][t] = s.add(s.load(&waiting[r][t]), acc[r][t]);
                }
            }
        }
        let waiting = self.sums[place_of(folds)].as_chunks_mut::<T>().0;
        let waiting: &mut [[[f32; LANES]; T]; R] = waiting.first_chunk_mut().expect("there is room");
        for r in 0..R {
            for t in 0..T {
                s.store(acc[r][t], &mut waiting[r][t]);
            }
        }
        if ends && place == LANES - 1 {
            for (t, out) in self.out.chunks_mut(self.stride).take(T).enumerate() {
                for (sums, out) in waiting.iter().zip(&mut out[first..self.rows]) {
                    *out = sums[t];
                }
            }
        }
    }
}

/// The first vectors as those of `R` rows and `T` tiles, whose number is known to the compiler: sums stay in registers.
#[inline(always)]
fn block<const T: usize, const R: usize>(vectors: &[[f32; LANES]]) -> &[[[f32; LANES]; T]; R] {
    vectors.as_chunks::<T>().0.first_chunk().expect("there are so many")
}

/// Which columns are added.
#[derive(Clone, Copy)]
struct Columns {
    /// Those of the lane whose turn it is in this place.
    place: usize,
    start: usize,
    end: usize,
    /// Whether they are its last.
    ends: bool,
}

/// The lane whose turn it is in a place: each right after those that it is folded with.
const fn fold_order(place: usize) -> usize {
    place.reverse_bits() >> (usize::BITS - LANES.ilog2())
}
