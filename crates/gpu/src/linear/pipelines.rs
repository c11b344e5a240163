//! The pipelines of linear layers: one for each kernel and tiling.

use super::shader::{LinearSpec, Tiling, cooperative, source};
use crate::{Error, Gpu, Result};

/// The tilings that a device's linear layers come in, and what all of them bind.
#[derive(Debug)]
pub struct LinearKernels {
    tilings: Vec<Tiling>,
    pub(crate) bindings: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
}

impl LinearKernels {
    /// Kernels of these tilings, fewest rows first, such as [`Tiling::ALL`].
    pub fn new(gpu: &Gpu, tilings: &[Tiling]) -> Result<LinearKernels> {
        let needs_matrices = tilings.iter().any(|tiling| matches!(tiling, Tiling::Cooperative { .. }));
        if needs_matrices && !cooperative(&gpu.info) {
            return Err(Error::Device {
                adapter: gpu.info.name.clone(),
                what: "linear layers on matrix units".to_string(),
                reason: "it has none that multiply 16x16 matrices of f16 by subgroups of 32".to_string(),
            });
        }
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding {
                    7 => storage(false),
                    8.. => wgpu::BufferBindingType::Uniform,
                    _ => storage(true),
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..10).map(entry).collect();
        gpu.scoped("the bindings of linear layers", || {
            let bindings = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some("linear"),
                entries: &entries,
            });
            let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some("linear"),
                bind_group_layouts: &[Some(&bindings)],
                immediate_size: 0,
            });
            LinearKernels { tilings: tilings.to_vec(), bindings, pipeline_layout }
        })
    }

    /// The pipelines of a layer, one for each tiling.
    pub(crate) fn pipelines(
        &self,
        gpu: &Gpu,
        spec: LinearSpec,
    ) -> Result<Vec<(Tiling, wgpu::ComputePipeline)>> {
        self.tilings.iter().map(|tiling| Ok((*tiling, self.pipeline(gpu, spec, *tiling)?))).collect()
    }

    fn pipeline(&self, gpu: &Gpu, spec: LinearSpec, tiling: Tiling) -> Result<wgpu::ComputePipeline> {
        // SAFETY: all loops end, and every index is below the length that it indexes: outputs, groups and rows
        // are clamped to the shape, which `Linear` has checked against the buffers that it binds.
        unsafe { gpu.pipeline("a linear layer", &source(spec, tiling), Some(&self.pipeline_layout)) }
    }
}
