//! Packed weights in device memory, cut by rows where they are larger than a shader can bind.

use std::ops::Range;
use std::sync::Arc;

use super::chunk::Chunk;
use super::pack::Packing;
use crate::launch::{Buffer, Kernels, Part, Purpose};
use crate::{Error, Result};

/// Where the rest plane of a buffer may start: a multiple of what every adapter allows bindings to start at.
const PLANE_ALIGNMENT: u64 = 256;

/// A matrix in device memory.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedWeight {
    packing: Packing,
    pieces: Vec<Piece>,
}

/// Some rows of a matrix: a buffer with both planes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) rows: Range<usize>,
    buffer: Buffer,
    /// Bytes of the low plane, and where the rest plane starts.
    low_bytes: u64,
    rest_at: u64,
}

impl Piece {
    pub(crate) fn low(&self) -> Part {
        self.buffer.part(0, self.low_bytes)
    }

    /// The rest plane; floats have none, and lend their low plane to a binding that no shader reads.
    pub(crate) fn rest(&self) -> Part {
        match self.buffer.size() - self.rest_at {
            0 => self.low(),
            bytes => self.buffer.part(self.rest_at, bytes),
        }
    }
}

impl PackedWeight {
    /// Room for a matrix; `name` is for messages.
    pub fn new(kernels: &mut Kernels, name: &str, packing: Packing) -> Result<PackedWeight> {
        let largest = kernels.facts.largest_binding.min(kernels.facts.largest_buffer / 2);
        PackedWeight::in_pieces(kernels, name, packing, largest)
    }

    /// The same with planes of at most `largest` bytes.
    pub(super) fn in_pieces(
        kernels: &mut Kernels,
        name: &str,
        packing: Packing,
        largest: u64,
    ) -> Result<PackedWeight> {
        let (low_row, rest_row) = (4 * packing.low_row() as u64, 4 * packing.rest_row() as u64);
        let widest = low_row.max(rest_row);
        let together = packing.padded(1);
        let most = usize::try_from(largest / widest).unwrap_or(usize::MAX) / together * together;
        if most == 0 && packing.rows() > 0 {
            return Err(Error::Limit {
                what: format!("{together} rows of {name}"),
                needed: widest * together as u64,
                limit: largest,
                unit: "binding",
                adapter: kernels.facts.adapter.clone(),
            });
        }
        let pieces = (0..packing.rows()).step_by(most.max(1)).map(|first| {
            let rows = first..packing.rows().min(first.saturating_add(most));
            let padded = packing.padded(rows.len()) as u64;
            let low_bytes = padded * low_row;
            let rest_at = low_bytes.next_multiple_of(PLANE_ALIGNMENT);
            let buffer = kernels.reserve(name, rest_at + padded * rest_row, Purpose::Weights);
            Piece { rows, buffer, low_bytes, rest_at }
        });
        Ok(PackedWeight { pieces: pieces.collect(), packing })
    }

    /// What is to be packed and copied to fill it with the rows of these tensors.
    ///
    /// # Panics
    /// Unless they have as many rows as the packing.
    pub fn chunks<'a>(&self, tensors: &[&'a [u8]]) -> Vec<Chunk<'a>> {
        let rows: usize = tensors.iter().map(|tensor| tensor.len() / self.packing.file_row()).sum();
        assert_eq!(rows, self.packing.rows(), "the rows of the tensors");
        let tensors = Arc::from(tensors);
        let chunks = |piece: &Piece| {
            Chunk::all_of(&self.packing, &tensors, piece.rows.clone(), piece.buffer, piece.rest_at)
        };
        self.pieces.iter().flat_map(chunks).collect()
    }

    /// How it is packed.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}
