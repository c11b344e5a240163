//! Quantised activations in blocks of sixteen rows, in the order in which tile units read them.

use gleed_gguf::Groups;
use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};

use super::Kernels;
use super::integer::Panel;
use super::quantize::Quantized;
use super::tile::{Line, TILE};

/// How much higher than they are activations are in blocks where they have no sign.
pub(super) const RAISED_BY: u8 = 128;

/// Rows of activations that a tile unit takes at once.
pub const BLOCK_ROWS: usize = 16;

/// Lines of integers of 32 columns of a block of rows.
pub(super) const CELL_LINES: usize = BLOCK_ROWS * BLOCK / size_of::<Line>();

/// 64 columns of a block of rows: a line per row.
type Pass = [Line; BLOCK_ROWS];

/// Lines of integers of 256 columns of a block of rows.
const SUPER_LINES: usize = BLOCK_ROWS * SUPER_BLOCK / size_of::<Line>();

/// Pairs of sums of a super-block, over groups of 32 and of 16 columns.
const PAIRS: [usize; 2] = [SUPER_BLOCK / 64, SUPER_BLOCK / 32];

/// Quantised activations in blocks of [`BLOCK_ROWS`] rows.
///
/// In blocks of 32 columns they are one *chunk*, in blocks of 256 a chunk for each of these: a tile unit goes
/// through the rows of a chunk, then to the next. In a chunk a block of rows is, for 32 columns: for each
/// the integers of all rows together; then for each the scales, then for each the scaled sums. For 256: the
/// integers of all rows, 64 columns together; then the scales, the pairs of sums over 32 columns,
/// those over 16, and how large sums of products can become.
#[derive(Debug, Clone, Copy)]
pub struct Blocked<'a> {
    /// `[chunks(columns, block)][stride][block_lines(columns, block)]`, from the first block of rows on.
    pub lines: &'a [Line],
    /// Blocks of rows.
    pub row_blocks: usize,
    /// Blocks of rows from chunk to chunk.
    pub stride: usize,
    /// Columns per row.
    pub columns: usize,
    /// Columns per scale: 32 or 256.
    pub block: usize,
}

/// In how many chunks `columns` columns come.
pub const fn chunks(columns: usize, block: usize) -> usize {
    if block == BLOCK { 1 } else { columns / block }
}

/// Lines of a block of rows of a chunk.
pub const fn block_lines(columns: usize, block: usize) -> usize {
    if block == BLOCK {
        columns / BLOCK * (CELL_LINES + 2)
    } else {
        SUPER_LINES + 1 + PAIRS[0] + PAIRS[1] + 1
    }
}

/// Panels to be multiplied with blocks of activations on a tile unit.
#[derive(Debug)]
pub struct MultiplyBlocks<'a> {
    /// Panels of the same kind, each all columns of sixteen rows of weights.
    pub panels: &'a [Panel<'a>],
    /// The activations.
    pub x: Blocked<'a>,
    /// What will be unpacked next: it is fetched meanwhile.
    pub next: &'a [Line],
    /// One result per row of activations and row of weights; whole blocks of rows.
    pub out: &'a mut [[f32; TILE]],
    /// From panel to panel in `out`, whole blocks of rows.
    pub stride: usize,
    /// Room for what the unit needs.
    pub scratch: &'a mut [Line],
}

impl MultiplyBlocks<'_> {
    /// Checks that all parts fit together, and tells of what kind the panels are; `None` where there is nothing to do.
    pub(super) fn check(&self) -> Option<Groups> {
        let MultiplyBlocks { panels, x, out, stride, .. } = self;
        let groups = panels.first().filter(|_| x.row_blocks > 0)?.groups;
        for panel in *panels {
            panel.check();
            assert!(x.columns == panel.columns() && panel.groups == groups && x.block == groups.block);
        }
        assert!(stride.is_multiple_of(BLOCK_ROWS) && out.len().is_multiple_of(BLOCK_ROWS));
        let rows = x.row_blocks * BLOCK_ROWS;
        assert!(rows <= *stride && (panels.len() - 1) * stride + rows <= out.len());
        Some(groups)
    }
}

/// Cells of 32 columns of a chunk of a panel.
pub(super) const CELLS: usize = SUPER_BLOCK / BLOCK;

/// Words of four columns of a cell.
pub(super) const WORDS: usize = BLOCK / 4;

/// 256 columns, and the activations.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub x: Blocked<'a>,
    /// Which columns.
    pub index: usize,
    /// How many cells of them there are.
    pub cells: usize,
}

/// How a vector unit multiplies: a chunk of some panels is laid out in the innermost cache and then meets all rows.
pub(super) trait Chunks<'a> {
    /// Panels that are laid out together.
    const PANELS: usize;

    fn prefetch(&self, line: &Line);
    /// Lays out some cells of panels, from one on.
    fn begin(&mut self, panels: &'a [Panel<'a>], first: usize, cells: usize);
    /// Adds what was laid out times a block of rows to its results, or starts them with the first chunk.
    fn multiply(&self, chunk: Chunk, block: usize, out: &mut [[f32; TILE]], stride: usize);
}

impl<'a> MultiplyBlocks<'a> {
    /// All panels, chunks and blocks of rows.
    #[inline(always)]
    pub(super) fn each<C: Chunks<'a>>(self, mut unit: C) {
        let MultiplyBlocks { panels, x, next, out, stride, .. } = self;
        let chunks = x.columns.div_ceil(SUPER_BLOCK);
        let turns = panels.len().div_ceil(C::PANELS) * chunks * x.row_blocks;
        let mut next = next.chunks(next.len().div_ceil(turns.max(1)).max(1));
        for (panels, out) in panels.chunks(C::PANELS).zip(out.chunks_mut(C::PANELS * stride)) {
            for index in 0..chunks {
                let cells = CELLS.min(x.columns / BLOCK - index * CELLS);
                unit.begin(panels, index * CELLS, cells);
                for block in 0..x.row_blocks {
                    for line in next.next().into_iter().flatten() {
                        unit.prefetch(line);
                    }
                    unit.multiply(Chunk { x, index, cells }, block, out, stride);
                }
            }
        }
    }
}

/// Runs a macro with what a kernel has as constants of groups: how many of a cell have factors, which in blocks of 32
/// columns are none, and whether there are mins.
macro_rules! of_groups {
    ($groups:expr, $run:ident) => {
        match ($groups.block, $groups.len, $groups.mins) {
            (gleed_model::arithmetic::BLOCK, _, false) => $run!(0, false),
            (gleed_model::arithmetic::BLOCK, _, true) => $run!(0, true),
            (_, 32, false) => $run!(1, false),
            (_, 32, true) => $run!(1, true),
            (_, _, false) => $run!(2, false),
            (_, _, true) => $run!(2, true),
        }
    };
}
pub(super) use of_groups;

/// What each row has of a block of columns.
type PerRow<T> = [T; BLOCK_ROWS];

impl<'a> Blocked<'a> {
    #[inline(always)]
    fn rows(self, b: usize, chunk: usize) -> &'a [Line] {
        let lines = block_lines(self.columns, self.block);
        &self.lines[(chunk * self.stride + b) * lines..][..lines]
    }

    /// A block of rows in blocks of 32 columns.
    #[inline(always)]
    pub(super) fn block(self, b: usize) -> RowBlock<'a> {
        assert_eq!(self.block, BLOCK);
        let cells = self.columns / BLOCK;
        let (integers, rest) = self.rows(b, 0).split_at(cells * CELL_LINES);
        let (scales, sums) = rest.split_at(cells);
        RowBlock {
            integers: &integers.as_chunks().0[..cells],
            scales: &bytemuck::cast_slice(scales)[..cells],
            scaled_sums: &bytemuck::cast_slice(sums)[..cells],
        }
    }

    /// The integers of one block of 256 columns of a block of rows.
    #[inline(always)]
    pub(super) fn super_block(self, b: usize, columns: usize) -> &'a [Pass; SUPER_BLOCK / 64] {
        assert_eq!(self.block, SUPER_BLOCK);
        &self.rows(b, columns).as_chunks().0.as_chunks().0[0]
    }

    /// The scales and sums of one block of 256 columns of a block of rows.
    #[inline(always)]
    pub(super) fn super_scales(self, b: usize, columns: usize) -> SuperScales<'a> {
        let (scales, pairs) = self.rows(b, columns)[SUPER_LINES..].split_at(1);
        let (pairs_32, rest) = pairs.split_at(PAIRS[0]);
        let (pairs_16, magnitudes) = rest.split_at(PAIRS[1]);
        let (pairs_32, pairs_16): (&[i32], &[i32]) =
            (bytemuck::cast_slice(pairs_32), bytemuck::cast_slice(pairs_16));
        SuperScales {
            scales: bytemuck::cast_ref(&scales[0].0),
            pairs_32: &pairs_32.as_chunks().0.as_chunks().0[0],
            pairs_16: &pairs_16.as_chunks().0.as_chunks().0[0],
            magnitudes: Magnitudes { of_32: magnitudes[0].0[0], of_16: magnitudes[0].0[1] },
        }
    }
}

/// A block of rows in blocks of 32 columns, one entry for each of these.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowBlock<'a> {
    pub integers: &'a [[Line; CELL_LINES]],
    pub scales: &'a [PerRow<f32>],
    pub scaled_sums: &'a [PerRow<f32>],
}

/// What each row of a block has of 256 columns besides its integers.
#[derive(Debug, Clone, Copy)]
pub(super) struct SuperScales<'a> {
    pub scales: &'a PerRow<f32>,
    /// Sums over groups of 32 columns, two to a word.
    pub pairs_32: &'a PerRow<[i32; PAIRS[0]]>,
    /// Sums over groups of 16 columns, two to a word.
    pub pairs_16: &'a PerRow<[i32; PAIRS[1]]>,
    /// Of all rows.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "other units add up in 32 bits"))]
    pub magnitudes: Magnitudes,
}

/// The largest sums of magnitudes of activations over groups of columns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Magnitudes {
    pub of_32: i32,
    pub of_16: i32,
}

impl Magnitudes {
    /// Takes in 256 columns of a row.
    fn add(&mut self, row: &[i32]) {
        let row: &[i8] = bytemuck::cast_slice(row);
        for cell in row.as_chunks::<BLOCK>().0 {
            let [first, last] = [&cell[..BLOCK / 2], &cell[BLOCK / 2..]]
                .map(|half| half.iter().map(|x| i16::from(*x).abs()).sum::<i16>().into());
            self.of_16 = self.of_16.max(first).max(last);
            self.of_32 = self.of_32.max(first + last);
        }
    }
}

/// Copies quantised rows into their block of a chunk, their integers as these kernels want them; rows that are missing
/// are zeros.
pub fn fill_block(kernels: Kernels, rows: Quantized, chunk: usize, out: &mut [Line]) {
    assert!(rows.rows <= BLOCK_ROWS && out.len() == block_lines(rows.columns, rows.block));
    if rows.rows < BLOCK_ROWS {
        out.fill(bytemuck::Zeroable::zeroed());
    }
    if rows.block == BLOCK {
        let cells = rows.columns / BLOCK;
        let (integers, rest) = out.split_at_mut(cells * CELL_LINES);
        let (scales, sums) = rest.split_at_mut(cells);
        for r in 0..rows.rows {
            let row = rows.row(r, BLOCK);
            put::<[i32; 8]>(integers, r, row.q.as_chunks().0);
            put(scales, r, row.scales);
            put(sums, r, row.scaled_sums);
        }
        raise(kernels, integers);
    } else {
        let (integers, rest) = out.split_at_mut(SUPER_LINES);
        let (scales, rest) = rest.split_at_mut(1);
        let (by_32, rest) = rest.split_at_mut(PAIRS[0]);
        let (by_16, magnitudes) = rest.split_at_mut(PAIRS[1]);
        let mut largest = Magnitudes::default();
        for r in 0..rows.rows {
            let row = rows.row(r, 32);
            let columns = &row.q.as_chunks::<{ SUPER_BLOCK / 4 }>().0[chunk];
            largest.add(columns);
            put::<[i32; 16]>(integers, r, columns.as_chunks().0);
            put(scales, r, &row.scales[chunk..=chunk]);
            put::<[i32; PAIRS[0]]>(by_32, r, &row.pairs.as_chunks().0[chunk..=chunk]);
            put::<[i32; PAIRS[1]]>(by_16, r, &rows.row(r, 16).pairs.as_chunks().0[chunk..=chunk]);
        }
        magnitudes[0].0[..2].copy_from_slice(&[largest.of_32, largest.of_16]);
        raise(kernels, integers);
    }
}

/// Copies what one row has of each block of columns.
fn put<T: bytemuck::Pod>(out: &mut [Line], row: usize, values: &[T]) {
    for (out, value) in bytemuck::cast_slice_mut::<Line, T>(out).chunks_exact_mut(BLOCK_ROWS).zip(values) {
        out[row] = *value;
    }
}

/// Raises integers where kernels want that: adding half of all values of a byte is turning its highest bit.
fn raise(kernels: Kernels, integers: &mut [Line]) {
    if kernels.raises_activations() {
        for line in integers {
            line.0.iter_mut().for_each(|word| *word ^= i32::from_ne_bytes([RAISED_BY; 4]));
        }
    }
}
