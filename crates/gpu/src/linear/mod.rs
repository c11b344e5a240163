//! Linear layers: packed weights in device memory and the kernels that multiply activations with them.
//!
//! A matrix is packed ([`Packing`]) and uploaded ([`PackedWeight`]); a [`Linear`] binds it to its operands once
//! and records its dispatches in every step. Whatever the number of rows, each result is the same bits.

pub(crate) mod decode;
mod layer;
mod layout;
mod pack;
mod shader;
mod template;
mod weight;

pub use layer::{Linear, LinearKernels, Matrix, Operands, RowsView};
pub use layout::{Factors, Integers, Layout, Scales};
pub use pack::{Packed, Packing};
pub use shader::{LinearSpec, Tiling, cooperative, source};
pub use weight::PackedWeight;
pub(crate) use weight::Piece;
