//! How does any GPU compute it? An executor for Metal, Vulkan and DX12 through wgpu.
//!
//! One set of WGSL kernels runs the same programs as the other executors; a row's result depends on that
//! row alone here too. [`adapters`] lists what there is, [`Gpu::open`] opens one of them, and
//! [`GpuExecutor`] runs programs on it.

mod activations;
mod bind;
mod buffers;
mod cache;
mod common;
mod compiler;
mod device;
mod error;
mod executor;
mod facts;
mod kernel_file;
mod kernels;
mod launch;
mod limits;
pub mod linear;
mod lost;
mod plan;
mod state;
mod step;
mod template;
#[cfg(test)]
mod testing;
mod units;
mod upload;
mod vulkan;
mod weights;

pub use bind::{Bound, Buffers};
pub use compiler::Compiled;
pub use device::{AdapterInfo, Gpu, Kind, Opened, Selection, adapters, may_be_there};
pub use error::{Error, Result};
pub use executor::{GpuExecutor, KvRoom, Start, StartWatch};
pub use facts::Facts;
pub use launch::{Buffer, Kernels, Run};
pub use limits::Limits;
pub use plan::{Memory, WeightKernels, kernels_of};
pub use units::matrices::{Element, MatrixShape};
pub use upload::upload;
pub use weights::Converted;

use gleed_model::{Arithmetic, KvType};

/// What an executor is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The order of operations of linear layers.
    pub arithmetic: Arithmetic,
    /// The element type of the KV cache.
    pub kv: KvType,
    /// The most rows of a step.
    pub max_rows: usize,
    /// KV pages.
    pub pages: usize,
    /// How many sequences the pages of layers with a window are for, which then are fewer: such a sequence gives back
    /// those that its window has left. As many as for all other layers when `None`.
    pub window_sequences: Option<usize>,
    /// State slots, where a program has recurrent layers.
    pub slots: usize,
    /// Rows whose logits are computed and read back at once, of a step that wants more; as many as take
    /// 64 MiB when `None`.
    pub logits_rows: Option<usize>,
}

impl Default for Options {
    /// Steps of 512 rows and room for 4,096 positions.
    fn default() -> Self {
        Options {
            arithmetic: Arithmetic::default(),
            kv: KvType::default(),
            max_rows: 512,
            pages: 64,
            window_sequences: None,
            slots: 6,
            logits_rows: None,
        }
    }
}
