//! How does a CPU compute it? The batched executor, its thread pool and kernels.
//!
//! [`Cpu`] runs a program over batches of any rows of any sequences. Kernels are chosen once, by what
//! the machine can do, and all give the same bits: a row's result does not depend on the batch it is
//! in, on the number of threads or on the instruction set.

mod cache;
mod error;
mod executor;
mod inputs;
pub mod kernels;
mod machine;
mod memory;
mod ops;
mod plan;
mod scratch;
mod state;
mod weights;

pub use error::Error;
pub use executor::{Cpu, Memory};
pub use kernels::Isa;
pub use memory::available as available_memory;
pub use weights::{WeightKernel, kernels_of};

use gleed_model::{Arithmetic, KvType};

/// What an executor is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The order of operations of linear layers.
    pub arithmetic: Arithmetic,
    /// The element type of the KV cache.
    pub kv: KvType,
    /// Threads that compute, the caller's among them; 0 for one per core.
    pub threads: usize,
    /// Forces an instruction set; the best one when `None`.
    pub isa: Option<Isa>,
    /// The most rows of a step.
    pub max_rows: usize,
    /// KV pages.
    pub pages: usize,
    /// How many sequences the pages of layers with a window are for, which then are fewer: such a sequence gives back
    /// those that its window has left. As many as for all other layers when `None`.
    pub window_sequences: Option<usize>,
    /// Bytes that repacked weights may take; `None` for what the system says is available. Weights that
    /// would take more are used from the file, which is slower.
    pub memory: Option<usize>,
}

impl Default for Options {
    /// Steps of 512 rows and room for 4,096 positions.
    fn default() -> Self {
        Options {
            arithmetic: Arithmetic::default(),
            kv: KvType::default(),
            threads: 0,
            isa: None,
            max_rows: 512,
            pages: 64,
            window_sequences: None,
            memory: None,
        }
    }
}
