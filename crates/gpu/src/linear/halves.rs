//! Activations as halves: buffers of them.

use super::half_layout::UNIT;
use super::layout::GROUP;
use crate::launch::{Buffer, Kernels};

/// Room for rows of halves. Rows of fewer columns than there is room for lie closer. A row that is alone has groups with
/// factors of their own, as it may be written by workgroups that have a part of it, and sums of squares beside them where
/// it is the input of an RMS norm times the norm's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfRows {
    buffer: Buffer,
    rows: usize,
    columns: usize,
}

impl HalfRows {
    /// Room for `rows` rows of up to `columns` columns.
    pub fn new(kernels: &mut Kernels, rows: usize, columns: usize) -> HalfRows {
        let buffer = kernels.storage("activations as halves", HalfRows::bytes(rows, columns));
        HalfRows { buffer, rows, columns }
    }

    /// Bytes that it takes.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        let vectors = rows * HalfRows::stride(columns) as usize + rows.div_ceil(4);
        16 * (vectors + 2 * HalfRows::groups(columns).div_ceil(4)) as u64
    }

    /// The halves: `[row][group][4]` of eight halves each, then the factors of the rows, those of the groups of a single
    /// row, and its groups' sums of squares.
    pub(crate) fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// Where the factors of rows begin, in vectors of four words.
    pub(crate) fn factors(&self) -> usize {
        self.rows * HalfRows::stride(self.columns) as usize
    }

    /// The same of a single row's groups.
    pub(crate) fn group_factors(&self) -> usize {
        self.factors() + self.rows.div_ceil(4)
    }

    /// The same of their sums of squares.
    pub(crate) fn squares(&self) -> usize {
        self.group_factors() + HalfRows::groups(self.columns).div_ceil(4)
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Groups of `columns` columns, with those that rows are filled up to.
    pub(super) fn groups(columns: usize) -> usize {
        columns.div_ceil(GROUP).next_multiple_of(UNIT)
    }

    /// Vectors of a row of `columns` columns.
    pub(crate) fn stride(columns: usize) -> u32 {
        (HalfRows::groups(columns) * 4) as u32
    }
}
