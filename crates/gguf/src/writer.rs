//! Writes GGUF files.

/// Writes a GGUF file: metadata and the tensor table first, then the data of each tensor in turn.
pub struct Writer {}
