//! How many pages of keys and values there is room for, asked before an executor is made.

use gleed_gguf::Gguf;
use gleed_model::program::Program;

use super::GpuExecutor;
use super::sizes::Sizes;
use crate::{Gpu, Options, Result, cache};

/// The room that weights and buffers leave for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvRoom {
    /// Bytes of one page, in all layers.
    pub page_bytes: u64,
    /// Bytes that are left, where the device says how many it has.
    pub bytes: Option<u64>,
    /// The most pages, as those of a layer are in one buffer.
    pub most_pages: usize,
}

impl GpuExecutor {
    /// The room there would be beside an executor made with these options, whatever their pages.
    pub fn kv_room(gpu: &Gpu, file: &Gguf, program: &Program, options: Options) -> Result<KvRoom> {
        let memory = Sizes::new(gpu, file, program, Options { pages: 0, ..options })?.memory;
        let layers = || program.caches.iter().flat_map(|layer| cache::layer_bytes(*layer, options.kv, 1));
        let largest = layers().max().unwrap_or(1).max(1);
        let limit = gpu.info.largest_binding.min(gpu.info.largest_buffer);
        Ok(KvRoom {
            page_bytes: layers().fold(0, u64::saturating_add),
            bytes: gpu.info.memory.map(|all| all.saturating_sub(memory.total())),
            most_pages: usize::try_from(limit / largest).unwrap_or(usize::MAX),
        })
    }
}
