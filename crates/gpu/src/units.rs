//! Matrix units: kernels for them that need one buffer, and whether they are what the kernels expect.

use gleed_model::arithmetic::unit;
use half::f16;

use crate::kernels::{Dispatch, Grid};
use crate::linear::UNITS_ENABLED;
use crate::{Gpu, Result, spirv};

/// Lanes of a subgroup, and words of a product that each of them has.
const LANES: u32 = 32;
const WORDS: u64 = 8;

/// A kernel with [`spirv::STUBS`] or [`spirv::FRAGMENTS`] that binds one buffer, which it reads and writes.
pub(crate) fn kernel(
    gpu: &Gpu,
    name: &'static str,
    stubs: &str,
    kernel: &str,
    out: &wgpu::Buffer,
) -> Result<Dispatch> {
    let text = format!("{UNITS_ENABLED}{stubs}{kernel}");
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
    let pipeline = unsafe { gpu.compiler.pipeline(name, &text, &layout) };
    Ok(Dispatch { pipeline, bindings, grid: Grid::Rows(1) })
}

/// Whether a product is exact, and lanes have its elements where `matrix.wgsl` says: Vulkan leaves that to the driver.
pub(crate) fn are_as_expected(gpu: &Gpu) -> Result<bool> {
    Ok(product(gpu, spirv::STUBS, include_str!("kernels/units_places.wgsl"))? == expected())
}

/// Whether a product of halves is what [`gleed_model::arithmetic::unit`] says, and lanes have its elements where
/// `fragments.wgsl` says.
pub(crate) fn halves_are_as_expected(gpu: &Gpu) -> Result<bool> {
    let found = product(gpu, spirv::FRAGMENTS, include_str!("kernels/halves_places.wgsl"))?;
    let expected = expected_of_halves();
    Ok(found.iter().zip(&expected).all(|(found, expected)| *found as u32 == expected.to_bits()))
}

/// What lanes have of a product.
fn product(gpu: &Gpu, stubs: &str, text: &str) -> Result<Vec<i32>> {
    let bytes = u64::from(LANES) * WORDS * 4;
    let (out, read) =
        (gpu.storage("places of a product", bytes)?, gpu.readable("places of a product", bytes)?);
    let dispatch = kernel(gpu, "the places of a product", stubs, text, &out)?;
    run(gpu, &dispatch, &out, &read)
}

/// A half of a matrix, as `halves_places.wgsl` makes it.
fn half_of(seed: u32) -> f16 {
    let mixed = seed.wrapping_mul(0xc2b2_ae35);
    let bits = ((mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b) >> 16) as u16;
    f16::from_bits(if bits & 0x7c00 == 0x7c00 { bits ^ 0x4000 } else { bits })
}

/// What all lanes should have of the product of halves.
fn expected_of_halves() -> Vec<f32> {
    let element = |output: u32, row: u32| {
        (0..4).fold(0.0, |sum, step| {
            let of = |first: u32| std::array::from_fn(|column| half_of(step * 512 + first + column as u32));
            unit(sum, of(output * 16), of(256 + row * 16))
        })
    };
    let of = |lane: u32| {
        let outputs = [lane / 4, lane / 4 + 8];
        let rows = [0, 1, 8, 9].map(|row| 2 * (lane % 4) + row);
        outputs.into_iter().flat_map(move |output| rows.map(|row| element(output, row)))
    };
    (0..LANES).flat_map(of).collect()
}

/// What one workgroup of a kernel writes.
fn run(gpu: &Gpu, dispatch: &Dispatch, out: &wgpu::Buffer, read: &wgpu::Buffer) -> Result<Vec<i32>> {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(dispatch.pipeline.get()?);
        pass.set_bind_group(0, &dispatch.bindings, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    encoder.copy_buffer_to_buffer(out, 0, read, 0, out.size());
    gpu.queue.submit([encoder.finish()]);
    let mut found = Vec::new();
    gpu.read(read, (out.size() / 4) as usize, &mut found)?;
    Ok(found)
}

/// A byte of a matrix, as `units_places.wgsl` makes it.
fn byte(seed: u32) -> i32 {
    let mixed = seed.wrapping_mul(0xc2b2_ae35);
    let byte = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b) >> 24;
    i32::from(byte as u8 as i8)
}

/// An element of the product: the bytes of a sum times those of a row.
fn element(sum: u32, row: u32) -> i32 {
    let weight = |column: u32| match sum {
        0 => -128,
        1 => 127,
        sum => byte(sum * 32 + column),
    };
    let input = |column: u32| match row {
        0 => -127,
        1 => 127,
        row => byte(512 + row * 32 + column),
    };
    (0..32).map(|column| weight(column) * input(column)).sum()
}

/// What all lanes should have.
fn expected() -> Vec<i32> {
    let of = |lane: u32| {
        let sums = [lane / 4, lane / 4 + 8];
        let rows = [0, 1, 8, 9].map(|row| 2 * (lane % 4) + row);
        sums.into_iter().flat_map(move |sum| rows.map(|row| spirv::ZERO as i32 + element(sum, row)))
    };
    (0..LANES).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Kernels, Source};

    /// Equal elements could change places without being noticed.
    #[test]
    fn every_element_is_expected_once() {
        let mut all = expected();
        let zero = spirv::ZERO as i32;
        assert!(all.iter().any(|element| *element < zero) && all.iter().any(|element| *element > zero));
        assert!(all.contains(&(zero + 32 * 128 * 127)) && all.contains(&(zero - 32 * 128 * 127)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 256);
    }

    /// The kernel multiplies the bytes that are expected here: with products in plain WGSL, on any device.
    #[test]
    fn the_kernel_multiplies_what_is_expected() {
        let text = include_str!("kernels/units_places.wgsl");
        let text = text.replace("@builtin(subgroup_invocation_id) lane: u32,", "");
        let with_lane = "    let lane = thread;\n    units_lane = thread;\n    workgroupBarrier();\n";
        let text = text.replace("    workgroupBarrier();\n", with_lane);
        let text = text.replace("@group(0) @binding(0) var<storage, read_write> out: array<vec4<i32>>;", "");
        let gpu = crate::testing::gpu();
        let bytes = u64::from(LANES) * WORDS * 4;
        let (out, read) = (gpu.storage("test", bytes).unwrap(), gpu.readable("test", bytes).unwrap());
        let source = Source::new("test", &text)
            .snippet(include_str!("linear/tests/matrix_plain.wgsl"))
            .write("out", "vec4<i32>", &out);
        let dispatch = Kernels::new(gpu.clone(), 0).dispatch(source, Grid::Rows(1)).unwrap();
        assert_eq!(run(gpu, &dispatch, &out, &read).unwrap(), expected());
    }
}
