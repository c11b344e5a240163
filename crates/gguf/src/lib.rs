//! What does the file say? GGUF files: header, metadata, tensor table, split files and block formats.
//!
//! [`Gguf::open`] maps a file (all parts of it, when it is split) and checks every length and offset in
//! it before use; [`Metadata`] answers typed questions about its keys; [`Format`] knows how each block
//! format is laid out, decoded and encoded; [`Mix`] which format each tensor takes, [`Importance`] which
//! weights matter most; [`Writer`] writes files; [`Gguf::assemble`] makes a model of tensors that lie in
//! files of other kinds.

mod assembly;
mod encode;
mod error;
mod file;
mod format;
mod formats;
mod importance;
mod importance_dat;
mod looks;
mod map;
mod metadata;
mod mix;
mod parse;
mod quantise;
mod split;
mod wire;
mod writer;

pub use assembly::{Make, Piece, Place};
pub use error::{Error, Result};
pub use file::{Gguf, TensorInfo};
pub use format::{Format, Groups, Unpacked};
pub use importance::{Importance, InputSquares};
pub use map::Bytes;
pub use metadata::{Array, Metadata, Strings, Value};
pub use mix::{Facts, Mix, TensorFormat};
pub use wire::shown;
pub use writer::{TensorSpec, Writer};
