//! What Vulkan says of an adapter and wgpu does not: how much memory it has and how much of that is free, and how many
//! multiprocessors.

/// Bytes of the adapter's own memory: the largest heap that is local to the device.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn memory(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handle is only asked for its properties while the adapter is alive, and is not kept.
    let heaps = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    own_heap(&heaps).map(|heap| heaps.memory_heaps[heap].size)
}

/// The largest heap that is local to the device.
#[cfg(not(target_vendor = "apple"))]
fn own_heap(heaps: &ash::vk::PhysicalDeviceMemoryProperties) -> Option<usize> {
    let local =
        |heap: &usize| heaps.memory_heaps[*heap].flags.contains(ash::vk::MemoryHeapFlags::DEVICE_LOCAL);
    (0..heaps.memory_heap_count as usize).filter(local).max_by_key(|heap| heaps.memory_heaps[*heap].size)
}

/// Bytes of the device's own memory that nothing uses yet: other programs have their share of it.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn free_memory(device: &wgpu::Device) -> Option<u64> {
    use ash::vk::{
        API_VERSION_1_1, PhysicalDeviceMemoryBudgetPropertiesEXT, PhysicalDeviceMemoryProperties2,
    };
    let mut budget = PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    // SAFETY: the handle is only asked for its properties while the device is alive, and is not kept; the function is
    // there from Vulkan 1.1 on, and the structure is known to this driver.
    let heaps = unsafe {
        let vulkan = device.as_hal::<wgpu::hal::api::Vulkan>()?;
        let shared = vulkan.shared_instance();
        if shared.instance_api_version() < API_VERSION_1_1
            || !vulkan.enabled_device_extensions().contains(&ash::ext::memory_budget::NAME)
        {
            return None;
        }
        let mut properties = PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        shared
            .raw_instance()
            .get_physical_device_memory_properties2(vulkan.raw_physical_device(), &mut properties);
        properties.memory_properties
    };
    own_heap(&heaps).map(|heap| budget.heap_budget[heap].saturating_sub(budget.heap_usage[heap]))
}

/// How many multiprocessors an adapter has: NVIDIA's drivers say.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn multiprocessors(adapter: &wgpu::Adapter) -> Option<u32> {
    use ash::vk::{API_VERSION_1_1, PhysicalDeviceProperties2, PhysicalDeviceShaderSMBuiltinsPropertiesNV};
    let mut builtins = PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
    // SAFETY: as above; the function is there from Vulkan 1.1 on, and the structure is known to this driver.
    unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let (shared, says) = (vulkan.shared_instance(), ash::nv::shader_sm_builtins::NAME);
        if shared.instance_api_version() < API_VERSION_1_1
            || !vulkan.physical_device_capabilities().supports_extension(says)
        {
            return None;
        }
        let mut properties = PhysicalDeviceProperties2::default().push_next(&mut builtins);
        shared.raw_instance().get_physical_device_properties2(vulkan.raw_physical_device(), &mut properties);
    }
    Some(builtins.shader_sm_count).filter(|count| *count > 0)
}

/// Metal does not say how many multiprocessors there are.
#[cfg(target_vendor = "apple")]
pub(crate) fn multiprocessors(_adapter: &wgpu::Adapter) -> Option<u32> {
    None
}

/// Bytes of the adapter's own memory: Metal has no such number for a shared memory.
#[cfg(target_vendor = "apple")]
pub(crate) fn memory(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

/// Metal does not say what other programs use.
#[cfg(target_vendor = "apple")]
pub(crate) fn free_memory(_device: &wgpu::Device) -> Option<u64> {
    None
}
