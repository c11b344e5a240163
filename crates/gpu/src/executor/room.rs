//! How many pages of keys and values there is room for, asked before an executor is made.

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::groups::most_that;
use gleed_model::program::Program;

use super::GpuExecutor;
use crate::plan::Sizes;
use crate::{Gpu, Options, Result, cache};

/// The room that weights and buffers leave for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvRoom {
    /// Bytes that are left, where the device says how many are free.
    pub bytes: Option<u64>,
    /// The most pages, as those of a layer are in one buffer.
    pub most_pages: usize,
}

impl GpuExecutor {
    /// The room there would be beside an executor made with these options, whatever their pages.
    pub fn kv_room(gpu: &Gpu, file: &Gguf, program: &Program, options: Options) -> Result<KvRoom> {
        let memory = Sizes::new(&gpu.facts(), file, program, Options { pages: 0, ..options })?.memory;
        let largest = |pages| cache::all_bytes(program, Options { pages, ..options }).max().unwrap_or(0);
        let limit = gpu.info.largest_binding.min(gpu.info.largest_buffer);
        let all = program.context.div_ceil(PAGE);
        Ok(KvRoom {
            bytes: gpu.free_memory().map(|free| free.saturating_sub(memory.total())),
            most_pages: most_that(all, |pages| largest(pages) <= limit),
        })
    }

    /// Bytes that the keys and values of a program take in an executor made with these options.
    pub fn kv_bytes(program: &Program, options: Options) -> u64 {
        cache::all_bytes(program, options).fold(0, u64::saturating_add)
    }
}
