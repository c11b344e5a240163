//! Quantised activations in blocks of sixteen rows, for tile units.

use gleed_model::arithmetic::ACTIVATION_BLOCK;

use super::integer::Quantized;
use super::packed::Line;
use super::quantize::{QuantizedRow, row_words};

/// Rows of activations that a tile unit takes at once.
pub const BLOCK_ROWS: usize = 16;

/// Lines of scratch that a tile unit stores its products in.
pub const TILE_SCRATCH: usize = 4 * BLOCK_ROWS;

/// Quantised activations in blocks of [`BLOCK_ROWS`] rows, as the tile unit reads them best: for each block
/// and each 32 columns the integers of all rows together, then the scales, then the scaled sums.
#[derive(Debug, Clone, Copy)]
pub struct Blocked<'a> {
    /// `[rows / BLOCK_ROWS][block_lines(columns)]`.
    pub lines: &'a [Line],
    /// Columns per row.
    pub columns: usize,
}

/// Lines of a block: eight of integers for every 32 columns, one of scales, one of scaled sums.
pub const fn block_lines(columns: usize) -> usize {
    columns / ACTIVATION_BLOCK * (CELL_LINES + 2)
}

/// Lines of integers of a block's 32 columns.
pub(super) const CELL_LINES: usize = BLOCK_ROWS * ACTIVATION_BLOCK / size_of::<Line>();

/// Copies [`BLOCK_ROWS`] quantised rows into a block.
pub fn fill_block(rows: Quantized, block: &mut [Line]) {
    assert!(rows.rows == BLOCK_ROWS && block.len() == block_lines(rows.columns));
    let (cells, words) = (rows.columns / ACTIVATION_BLOCK, row_words(rows.columns));
    let (integers, rest) = block.split_at_mut(cells * CELL_LINES);
    let (scales, sums) = rest.split_at_mut(cells);
    let integers: &mut [[[i32; 8]; BLOCK_ROWS]] = bytemuck::cast_slice_mut(integers);
    let (scales, sums): (&mut [[f32; BLOCK_ROWS]], &mut [[f32; BLOCK_ROWS]]) =
        (bytemuck::cast_slice_mut(scales), bytemuck::cast_slice_mut(sums));
    for r in 0..BLOCK_ROWS {
        let row = QuantizedRow::new(&rows.words[r * words..][..words], rows.columns, ACTIVATION_BLOCK);
        for (out, q) in integers.iter_mut().zip(row.q.as_chunks().0) {
            out[r] = *q;
        }
        for (out, scale) in scales.iter_mut().zip(row.scales) {
            out[r] = *scale;
        }
        for (out, sum) in sums.iter_mut().zip(row.scaled_sums) {
            out[r] = *sum;
        }
    }
}
