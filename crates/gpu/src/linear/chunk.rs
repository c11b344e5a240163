//! What of a matrix is packed and copied at a time.

use std::ops::Range;
use std::sync::Arc;

use super::pack::{Packed, Packing};
use crate::launch::Buffer;

/// Bytes of both planes that are packed and copied at a time, if that is a row at least.
const CHUNK: u64 = 4 << 20;

/// Some rows of a matrix, and where they go.
#[derive(Debug)]
pub struct Chunk<'a> {
    packing: Packing,
    /// The tensors whose rows the matrix has, one after the other, as the file has them.
    tensors: Arc<[&'a [u8]]>,
    /// Rows of the matrix.
    rows: Range<usize>,
    pub(crate) buffer: Buffer,
    /// Where their planes begin in the buffer.
    pub(crate) low_at: u64,
    pub(crate) rest_at: u64,
}

impl<'a> Chunk<'a> {
    /// Those of some rows of a matrix whose planes begin at these places of a buffer.
    pub(super) fn all_of(
        packing: &Packing,
        tensors: &Arc<[&'a [u8]]>,
        rows: Range<usize>,
        buffer: Buffer,
        rest_at: u64,
    ) -> Vec<Chunk<'a>> {
        let (low_row, rest_row) = (4 * packing.low_row() as u64, 4 * packing.rest_row() as u64);
        let most = packing.padded(usize::try_from(CHUNK / (low_row + rest_row)).unwrap_or(1).max(1));
        let chunk = |first: usize| {
            let before = (first - rows.start) as u64;
            Chunk {
                packing: packing.clone(),
                tensors: Arc::clone(tensors),
                rows: first..rows.end.min(first + most),
                buffer,
                low_at: before * low_row,
                rest_at: rest_at + before * rest_row,
            }
        };
        rows.clone().step_by(most).map(chunk).collect()
    }

    /// Bytes of both planes.
    pub(crate) fn bytes(&self) -> u64 {
        let words = self.packing.low_row() + self.packing.rest_row();
        4 * (self.packing.padded(self.rows.len()) * words) as u64
    }

    pub(crate) fn pack(&self, packed: &mut Packed) {
        let all = self.tensors.iter().flat_map(|tensor| tensor.chunks_exact(self.packing.file_row()));
        let rows: Vec<&[u8]> = all.skip(self.rows.start).take(self.rows.len()).collect();
        self.packing.pack_into(&rows, packed);
    }
}
