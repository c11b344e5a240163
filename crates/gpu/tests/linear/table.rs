//! Tables: each value of every format, read by itself.

use gleed_gguf::Format;
use gleed_gpu::Gpu;
use gleed_gpu::linear::{PackedWeight, TablePart};

use crate::support::{Random, Weight, assert_same, buffer, read, setup};

/// All values of a part of a table.
fn values(gpu: &Gpu, part: &TablePart, columns: usize) -> Vec<f32> {
    let count = part.rows.len() * columns;
    let (low, rest) = part.elements;
    let mut text = format!("@group(0) @binding(0) var<storage, read> low_a: array<{low}>;\n");
    if let Some(rest) = rest {
        text += &format!("@group(0) @binding(1) var<storage, read> rest_a: array<{rest}>;\n");
    }
    text += &format!(
        "@group(0) @binding(2) var<storage, read_write> out: array<f32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if (id.x < {count}u) {{
                out[id.x] = table_value(id.x / {columns}u, id.x % {columns}u);
            }}
        }}"
    );
    text += &part.text;
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(text.into()),
    });
    let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let out = buffer(gpu, &vec![0.0; count], wgpu::BufferUsages::STORAGE);
    let entries = [(0, part.buffer), (2, &out), (1, part.buffer)]
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
    let bind_group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: if rest.is_some() { &entries } else { &entries[..2] },
    });
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bind_group, &[]);
        pass.dispatch_workgroups(count.div_ceil(64) as u32, 1, 1);
    }
    read(gpu, encoder, &out)
}

#[test]
fn every_format_is_decoded_on_the_device() {
    let (gpu, _, fused) = setup();
    let mut random = Random(20);
    for format in Format::all() {
        let columns = 512;
        let weight = Weight::random(&mut random, format, 5, columns);
        let largest = 4 * 4 * columns as u64;
        let packed =
            PackedWeight::upload_in_pieces(gpu, "t", weight.packing(), &weight.file, largest, &mut |_| {})
                .unwrap();
        let truth = weight.values(*fused);
        for part in packed.table_parts() {
            let expected = &truth[part.rows.start * columns..part.rows.end * columns];
            assert_same(&format!("{format} {:?}", part.rows), &values(gpu, &part, columns), expected);
        }
    }
}
