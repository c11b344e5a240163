//! How does any GPU compute it? An executor for Metal, Vulkan and DX12 through wgpu.
//!
//! One set of WGSL kernels runs the same programs as the other executors; a row's result depends on that
//! row alone here too. [`adapters`] lists what there is, [`Gpu::open`] opens one of them.

mod device;
mod error;
pub mod linear;
mod memory;

pub use device::{AdapterInfo, Choice, Gpu, Kind, adapters};
pub use error::{Error, Result};
