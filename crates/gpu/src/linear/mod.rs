//! Linear layers: packed weights in device memory and the kernels that multiply activations with them.
//!
//! A matrix is packed ([`Packing`]) and uploaded ([`PackedWeight`]); a [`Linear`] binds it to its operands once
//! and records its dispatches in every step. Whatever the number of rows, each result is the same bits.

pub(crate) mod decode;
mod layer;
mod layout;
mod pack;
mod pipelines;
mod shader;
pub(crate) mod template;
mod weight;

pub use layer::{Linear, Matrix, Operands, RowsView};
pub use layout::{Factors, Integers, Layout, Scales};
pub use pack::{Packed, Packing};
pub use pipelines::LinearKernels;
pub use shader::{Combination, LinearSpec, Tiling, cooperative, source};
pub use weight::PackedWeight;
pub(crate) use weight::Piece;
