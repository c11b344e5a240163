//! Linear layers: packed weights in device memory and the kernels that multiply activations with them.

mod layout;
mod pack;

pub use layout::{Factors, Integers, Layout, Scales};
pub use pack::{Packed, Packing};
