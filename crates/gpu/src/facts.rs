//! What planning asks of a device: a few numbers, with which a plan can be made without one.

use crate::units::fragments::{Fragments, Room};

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its adapter's name, for messages.
    pub adapter: String,
    /// Whether it is no GPU at all.
    pub software: bool,
    /// Multiprocessors, where the driver says.
    pub multiprocessors: Option<u32>,
    /// Bytes of memory that a workgroup may have.
    pub workgroup_memory: u32,
    /// Threads that it may have.
    pub workgroup_threads: u32,
    /// Storage buffers that a kernel may bind.
    pub storage_bindings: u32,
    /// Bytes of a buffer that a kernel may see through one binding.
    pub largest_binding: u64,
    /// Bytes of the largest buffer.
    pub largest_buffer: u64,
    /// How kernels on matrix units get at the elements of matrices; nothing where there are no such units.
    pub(crate) fragments: Option<Fragments>,
}

impl Facts {
    /// What workgroups on matrix units have room for.
    pub(crate) fn room(&self) -> Room {
        let fragments = self.fragments.unwrap_or(Fragments::Lanes);
        fragments.room(self.workgroup_memory, self.workgroup_threads)
    }
}
