//! Shared by the tests: what all executors' tests share, and opening an adapter.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

use gleed_gguf::Gguf;
use gleed_gpu::{Choice, Gpu, GpuExecutor, Options};
use gleed_model::program::Program;

#[path = "../../../model/tests/support/mod.rs"]
mod support;

mod case;

pub use case::Case;
pub use support::*;

/// The adapter that `GLEED_TEST_ADAPTER` names, else the best one, be it software.
pub fn gpu() -> Gpu {
    let named = std::env::var("GLEED_TEST_ADAPTER").ok();
    let choice = named.as_deref().map_or(Choice::BestOrSoftware, Choice::Named);
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
