//! Linear layers: packed weights in device memory and the kernels that multiply activations with them.
//!
//! A matrix is packed ([`Packing`]) and uploaded ([`PackedWeight`]); a [`Linear`] binds it to its operands once
//! and records its dispatches in every step. Its input are floats, or integers that [`Quantize`] made of floats.
//! Whatever the number of rows, each result is the same bits.

pub(crate) mod decode;
mod half_layout;
mod half_tiling;
pub(crate) mod half_weights;
mod halves;
mod integers;
mod layer;
mod layout;
mod operands;
mod pack;
mod pipelines;
mod quantize;
mod shader;
#[cfg(test)]
pub(crate) mod tests;
mod tiling;
mod upload;
mod weight;

pub use crate::units::half_units;
pub use half_layout::{HalfLayout, Terms};
pub use halves::{HalfRows, ToHalves};
pub use layer::Linear;
pub use layout::{Factors, Integers, Layout, Scales};
pub use operands::{Input, Matrix, NextNorm, Operands, Rounded, RowsView};
pub use pack::{Packed, Packing};
pub use pipelines::LinearKernels;
pub use quantize::{Quantize, Quantized};
pub use shader::{Combination, InputKind, LinearSpec, quantize_source, source};
pub use tiling::Tiling;
pub(crate) use upload::{Chunk, Upload, Uploaded};
pub use weight::PackedWeight;
pub(crate) use weight::Piece;
