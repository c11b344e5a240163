//! Linear layers: packed weights in device memory and the kernels that multiply activations with them.
//!
//! A matrix is packed ([`Packing`]) and has its place on the device ([`PackedWeight`]); a [`Linear`] binds it to its
//! operands once, and says what is launched in every step. Its input are floats, or what [`Conversion`] made of floats.
//! Whatever the number of rows, each result is the same bits.

mod chunk;
mod convert;
pub(crate) mod decode;
mod half_layout;
mod half_tiling;
pub(crate) mod half_weights;
mod halves;
mod integers;
mod kernels;
mod layer;
mod layout;
mod operands;
mod pack;
mod quantize;
mod shader;
#[cfg(test)]
pub(crate) mod tests;
mod tiling;
mod weight;

pub use crate::units::half_units;
pub use chunk::Chunk;
pub use convert::Conversion;
pub use half_layout::{HalfLayout, Terms};
pub use halves::HalfRows;
pub use kernels::LinearKernels;
pub use layer::Linear;
pub use layout::{Factors, Integers, Layout, Scales};
pub use operands::{Input, Matrix, NextNorm, Operands, Rounded, RowsView};
pub use pack::{Packed, Packing};
pub use quantize::Quantized;
pub use shader::{Combination, InputKind, LinearSpec, quantize_source, source};
pub use tiling::Tiling;
pub use weight::PackedWeight;
pub(crate) use weight::Piece;
