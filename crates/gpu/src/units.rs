//! Matrix units: kernels for them that need one buffer, and whether they are what the kernels expect.

use crate::kernels::{Dispatch, Grid};
use crate::linear::UNITS_ENABLED;
use crate::{Gpu, Result, spirv};

/// Lanes of a subgroup, and words of a product that each of them has.
const LANES: i32 = 32;
const WORDS: u64 = 8;

/// A kernel with [`spirv::STUBS`] that binds one buffer, which it reads and writes.
pub(crate) fn kernel(gpu: &Gpu, name: &str, kernel: &str, out: &wgpu::Buffer) -> Result<Dispatch> {
    let text = format!("{UNITS_ENABLED}{}{kernel}", spirv::STUBS);
    // What SPIR-V binds is not looked up: it is said here.
    let entry = wgpu::BindGroupLayoutEntry {
        binding: 0,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: false },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let (layout, bindings) = gpu.scoped(&format!("binding {name}"), || {
        let layout = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &[entry] });
        let entries = &[wgpu::BindGroupEntry { binding: 0, resource: out.as_entire_binding() }];
        let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries,
        });
        let layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        (layout, bindings)
    })?;
    // SAFETY: these kernels' loops end, and their indices are below the lengths of what they index.
    let pipeline = unsafe { gpu.pipeline(name, &text, Some(&layout)) }?;
    Ok(Dispatch { pipeline, bindings, grid: Grid::Rows(1) })
}

/// Whether a product is exact, and lanes have its elements where `matrix.wgsl` says: Vulkan leaves that to the driver.
pub(crate) fn are_as_expected(gpu: &Gpu) -> Result<bool> {
    let bytes = LANES as u64 * WORDS * 4;
    let (out, read) =
        (gpu.storage("places of a product", bytes)?, gpu.readable("places of a product", bytes)?);
    let dispatch = kernel(gpu, "the places of a product", include_str!("kernels/units_places.wgsl"), &out)?;
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&dispatch.pipeline);
        pass.set_bind_group(0, &dispatch.bindings, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&out, 0, &read, 0, bytes);
    gpu.queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |_| {});
    gpu.wait()?;
    let Ok(mapped) = read.slice(..).get_mapped_range() else { return Ok(false) };
    Ok(bytemuck::cast_slice::<u8, i32>(&mapped) == expected())
}

/// What all lanes should have.
fn expected() -> Vec<i32> {
    let of = |lane: i32| {
        let sums = [lane / 4, lane / 4 + 8];
        let rows = [0, 1, 8, 9].map(|row| 2 * (lane % 4) + row);
        sums.into_iter().flat_map(move |sum| rows.map(|row| spirv::ZERO as i32 + sum + 16 * row))
    };
    (0..LANES).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_element_is_expected_once() {
        let mut all = super::expected();
        all.sort_unstable();
        let zero = crate::spirv::ZERO as i32;
        assert_eq!(all, (zero..zero + 256).collect::<Vec<_>>());
    }
}
