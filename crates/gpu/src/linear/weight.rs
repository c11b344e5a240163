//! Packed weights in device memory, cut by rows where they are larger than a shader can bind.

use std::ops::Range;
use std::sync::Arc;

use super::pack::Packing;
use super::upload::{Chunk, Upload};
use crate::{Error, Gpu, Result};

/// Where the rest plane of a buffer may start: a multiple of what every adapter allows bindings to start at.
const PLANE_ALIGNMENT: u64 = 256;

/// A matrix in device memory.
#[derive(Debug, Clone)]
pub struct PackedWeight {
    packing: Packing,
    pieces: Vec<Piece>,
}

/// Some rows of a matrix: a buffer with both planes.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) rows: Range<usize>,
    buffer: wgpu::Buffer,
    /// Bytes of the low plane, and where the rest plane starts.
    low_bytes: u64,
    rest_at: u64,
}

impl Piece {
    pub(crate) fn low(&self) -> wgpu::BindingResource<'_> {
        self.binding(0, self.low_bytes)
    }

    /// The rest plane; floats have none, and lend their low plane to a binding that no shader reads.
    pub(crate) fn rest(&self) -> wgpu::BindingResource<'_> {
        match self.buffer.size() - self.rest_at {
            0 => self.low(),
            bytes => self.binding(self.rest_at, bytes),
        }
    }

    fn binding(&self, offset: u64, bytes: u64) -> wgpu::BindingResource<'_> {
        let size = wgpu::BufferSize::new(bytes);
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: &self.buffer, offset, size })
    }
}

impl PackedWeight {
    /// Packs a matrix and copies it to the device. `tensors` are those whose rows it has, one after the other,
    /// as the file has them; `progress` is called with the number of bytes copied since it was last called.
    ///
    /// # Panics
    /// Unless the tensors have as many rows as the packing.
    pub fn upload(
        gpu: &Gpu,
        name: &str,
        packing: Packing,
        tensors: &[&[u8]],
        progress: &mut dyn FnMut(u64),
    ) -> Result<PackedWeight> {
        PackedWeight::new(gpu, name, packing)?.filled(gpu, tensors, progress)
    }

    /// The same with planes of at most `largest` bytes.
    pub fn upload_in_pieces(
        gpu: &Gpu,
        name: &str,
        packing: Packing,
        tensors: &[&[u8]],
        largest: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<PackedWeight> {
        PackedWeight::in_pieces(gpu, name, packing, largest)?.filled(gpu, tensors, progress)
    }

    fn filled(self, gpu: &Gpu, tensors: &[&[u8]], progress: &mut dyn FnMut(u64)) -> Result<PackedWeight> {
        let chunks = self.chunks(tensors);
        std::thread::scope(|scope| Upload::begin(scope, gpu, &chunks).finish(progress))?;
        Ok(self)
    }

    /// Room for a matrix, with nothing in it yet.
    pub(crate) fn new(gpu: &Gpu, name: &str, packing: Packing) -> Result<PackedWeight> {
        let limits = gpu.device.limits();
        let largest = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size / 2);
        PackedWeight::in_pieces(gpu, name, packing, largest)
    }

    fn in_pieces(gpu: &Gpu, name: &str, packing: Packing, largest: u64) -> Result<PackedWeight> {
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
                adapter: gpu.info.name.clone(),
            });
        }
        let pieces = (0..packing.rows()).step_by(most.max(1)).map(|first| {
            let rows = first..packing.rows().min(first.saturating_add(most));
            let padded = packing.padded(rows.len()) as u64;
            let low_bytes = padded * low_row;
            let rest_at = low_bytes.next_multiple_of(PLANE_ALIGNMENT);
            let buffer = gpu.scoped(name, || {
                gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some(name),
                    size: rest_at + padded * rest_row,
                    usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            })?;
            Ok(Piece { rows, buffer, low_bytes, rest_at })
        });
        let pieces = pieces.collect::<Result<_>>()?;
        Ok(PackedWeight { packing, pieces })
    }

    /// What is to be packed and copied to fill it with the rows of these tensors.
    ///
    /// # Panics
    /// Unless they have as many rows as the packing.
    pub(crate) fn chunks<'a>(&self, tensors: &[&'a [u8]]) -> Vec<Chunk<'a>> {
        let rows: usize = tensors.iter().map(|tensor| tensor.len() / self.packing.file_row()).sum();
        assert_eq!(rows, self.packing.rows(), "the rows of the tensors");
        let tensors = Arc::from(tensors);
        let chunks = |piece: &Piece| {
            Chunk::all_of(&self.packing, &tensors, piece.rows.clone(), &piece.buffer, piece.rest_at)
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
