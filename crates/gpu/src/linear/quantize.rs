//! Activations as integers: buffers of them.

use super::layout::GROUP;
use crate::launch::{Buffer, Kernels};

/// Vectors of four words for every group of 32 columns: 32 bytes, then a scale and sums.
const VECTORS: usize = 3;

/// Room for rows of integers. Rows of fewer columns than there is room for lie closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantized {
    buffer: Buffer,
    rows: usize,
    columns: usize,
}

impl Quantized {
    /// Room for `rows` rows of up to `columns` columns.
    pub fn new(kernels: &mut Kernels, rows: usize, columns: usize) -> Quantized {
        let buffer = kernels.storage("activations as integers", Quantized::bytes(rows, columns));
        Quantized { buffer, rows, columns }
    }

    /// Bytes that it takes.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        16 * (factors_at(rows, columns) + rows.div_ceil(4)) as u64
    }

    /// The integers: `[row][group][3]` of four words each: 16 bytes, 16 more, and the scale with the sums of the
    /// first and of the last 16 and, as a float, both sums times the scale. Then what only norms write: the sums
    /// of squares of all groups, `[row][group]` in whole vectors of four, and the factors of the rows.
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// Where sums of squares begin, in vectors of four words.
    pub(crate) fn squares(&self) -> usize {
        squares_at(self.rows, self.columns)
    }

    /// Where the factors of rows begin, in vectors of four words.
    pub(crate) fn factors(&self) -> usize {
        factors_at(self.rows, self.columns)
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Vectors of a row of `columns` columns.
    pub(super) fn stride(&self, columns: usize) -> u32 {
        (columns.div_ceil(GROUP) * VECTORS) as u32
    }
}

fn squares_at(rows: usize, columns: usize) -> usize {
    rows * columns.div_ceil(GROUP) * VECTORS
}

fn factors_at(rows: usize, columns: usize) -> usize {
    squares_at(rows, columns) + rows * columns.div_ceil(4 * GROUP)
}
