//! Shared by the tests: what all executors' tests share, and opening an adapter.

use std::sync::OnceLock;

use gleed_gguf::{Format, Gguf};
use gleed_gpu::{Gpu, GpuExecutor, Options, Selection};
use gleed_model::program::Program;

#[path = "../../../../model/tests/support/mod.rs"]
mod support;

mod case;

pub use case::Case;
pub use support::*;

/// What the matrices of tests are stored as that do not ask for more, so that they share kernels.
pub const FLOATS: &[Format] = &[Format::F16];

/// The device of all tests, which keeps its compiled kernels from test to test.
pub fn gpu() -> Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(own_gpu).clone()
}

/// A device that a test may break: the adapter that `GLEED_TEST_ADAPTER` names, else the best one, be it software.
pub fn own_gpu() -> Gpu {
    let named = std::env::var("GLEED_TEST_ADAPTER").ok();
    let choice = named.as_deref().map_or(Selection::BestOrSoftware, Selection::Named);
    Gpu::open(choice).unwrap_or_else(|error| {
        panic!(
            "{error}\nThese tests need a Vulkan, Metal or DX12 adapter. Without a GPU, install a software \
             one: `apt install mesa-vulkan-drivers` on Debian."
        )
    })
}

/// An executor for a tiny model.
pub fn executor(gpu: &Gpu, file: &Gguf, program: &Program, options: Options) -> GpuExecutor {
    GpuExecutor::new(gpu.clone(), file, program.clone(), options).unwrap()
}
