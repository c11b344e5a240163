//! How much memory an adapter has, where its driver says.

/// Bytes of the adapter's own memory: the largest heap that is local to the device.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn of_adapter(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handle is only asked for its properties while the adapter is alive, and is not kept.
    let heaps = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    let heaps = &heaps.memory_heaps[..heaps.memory_heap_count as usize];
    // Bit 0 of the flags is VK_MEMORY_HEAP_DEVICE_LOCAL_BIT.
    heaps.iter().filter(|heap| heap.flags.as_raw() & 1 != 0).map(|heap| heap.size).max()
}

/// Bytes of the adapter's own memory: Metal has no such number for a shared memory.
#[cfg(target_vendor = "apple")]
pub(crate) fn of_adapter(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}
