//! An opened GGUF file: mapped, checked, ready to be asked.

use std::path::Path;

use crate::{Format, Metadata, Result};

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// The name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// The dimensions, fastest first: a linear layer is `[inputs, outputs]`.
    pub shape: Vec<usize>,
    /// How the values are stored.
    pub format: Format,
    /// Which part of a split file holds the data.
    pub part: usize,
    /// Where the data starts in that part, from the start of the file.
    pub offset: usize,
    /// How many bytes the data takes.
    pub bytes: usize,
}

/// An opened GGUF file (or all the parts of a split one).
pub struct Gguf {}

impl Gguf {
    /// Opens a file; when it is one part of a split (`-00001-of-00003`), opens them all.
    pub fn open(_path: &Path) -> Result<Gguf> {
        unimplemented!()
    }

    /// Opens a file that is already in memory; `name` stands in messages.
    pub fn from_bytes(_name: &str, _bytes: &'static [u8]) -> Result<Gguf> {
        unimplemented!()
    }

    /// The keys and values.
    pub fn metadata(&self) -> &Metadata {
        unimplemented!()
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        unimplemented!()
    }

    /// The tensor of that name.
    pub fn tensor(&self, _name: &str) -> Option<&TensorInfo> {
        unimplemented!()
    }

    /// The bytes of a tensor of this file.
    pub fn data(&self, _tensor: &TensorInfo) -> &[u8] {
        unimplemented!()
    }
}
