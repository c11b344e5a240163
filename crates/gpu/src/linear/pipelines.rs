//! The pipelines of linear layers: one for each kernel and tiling.

use std::sync::{Arc, Mutex, PoisonError};

use super::layer::Shape;
use super::shader::{InputKind, LinearSpec, quantize_source, source, to_halves_source};
use super::tiling::Tiling;
use crate::compiler::Pipeline;
use crate::{Gpu, Result};

/// The tilings that a device's linear layers come in, and what all of them bind.
#[derive(Debug)]
pub struct LinearKernels {
    tilings: Vec<Tiling>,
    integer_tilings: Vec<Tiling>,
    /// Those for inputs of halves, where they are not all that there are.
    half_tilings: Option<Vec<Tiling>>,
    bindings: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
    /// The WGSL of a layer in one tiling: tests have texts of their own.
    source: fn(LinearSpec, Tiling) -> String,
    /// Bound where layers do not write for the next one; none on devices where none can.
    unused: Option<wgpu::Buffer>,
    /// The pipelines of the layers so far.
    known: Mutex<Vec<(LinearSpec, Tiled)>>,
}

/// A pipeline for each tiling.
pub(super) type Tiled = Arc<[(Tiling, Pipeline)]>;

impl LinearKernels {
    /// Kernels of these tilings, fewest rows first, such as [`Tiling::ALL`]; those for inputs of integers such
    /// as [`Tiling::INTEGERS`].
    pub fn new(gpu: &Gpu, tilings: &[Tiling], integer_tilings: &[Tiling]) -> Result<LinearKernels> {
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding {
                    7 | 10 => storage(false),
                    8 | 9 => wgpu::BufferBindingType::Uniform,
                    _ => storage(true),
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let limits = gpu.device.limits();
        let requantizes = limits.max_storage_buffers_per_shader_stage >= 9
            && limits.max_compute_workgroup_storage_size >= Tiling::REQUANTIZING_BYTES
            && limits.max_compute_invocations_per_workgroup >= Tiling::REQUANTIZING_THREADS;
        let bindings = 10 + u32::from(requantizes);
        let entries: Vec<_> = (0..bindings).map(entry).collect();
        let unused = requantizes.then(|| gpu.storage("nothing for the next layer", 4)).transpose()?;
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
            let [tilings, integer_tilings] = [tilings, integer_tilings].map(<[Tiling]>::to_vec);
            let half_tilings = gpu.fragments().is_none().then(Vec::new);
            LinearKernels {
                tilings,
                integer_tilings,
                half_tilings,
                bindings,
                pipeline_layout,
                source,
                unused,
                known: Mutex::default(),
            }
        })
    }

    /// The same kernels, of these tilings for inputs of halves instead of all.
    pub fn with_halves(self, tilings: Vec<Tiling>) -> LinearKernels {
        LinearKernels { half_tilings: Some(tilings), ..self }
    }

    /// The same kernels, of one tiling for inputs of integers or halves and with other texts.
    #[cfg(test)]
    pub(super) fn with_texts(
        self,
        tiling: Tiling,
        source: fn(LinearSpec, Tiling) -> String,
    ) -> LinearKernels {
        LinearKernels { integer_tilings: vec![tiling], half_tilings: Some(vec![tiling]), source, ..self }
    }

    /// Whether layers of such an input can write their results for the next one too.
    pub(super) fn can_requantize(&self, input: InputKind) -> bool {
        let few = || self.integer_tilings.iter().any(|tiling| tiling.requantizes());
        self.unused.is_some() && (input.is_single() || input == InputKind::Integers && few())
    }

    /// Why there is no kernel for a layer.
    pub(super) fn lack(&self, gpu: &Gpu, spec: LinearSpec) -> String {
        let limits = gpu.device.limits();
        if spec.half_groups() > 0 {
            return "it has no matrix units that multiply halves as expected".to_string();
        }
        let of = if spec.input == InputKind::Integers { "integers" } else { "floats" };
        let (threads, bytes) =
            (limits.max_compute_invocations_per_workgroup, limits.max_compute_workgroup_storage_size);
        format!("none for {of} fits into workgroups of {threads} threads with {bytes} bytes of memory")
    }

    /// The pipelines of a layer, one for each tiling that it may need. Layers that are alike share them.
    pub(super) fn pipelines(&self, gpu: &Gpu, spec: LinearSpec) -> Tiled {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tiled)) = known.iter().find(|(other, _)| *other == spec) {
            return Arc::clone(tiled);
        }
        let tilings = match spec.input {
            InputKind::Integers => Tiling::of_layer(&self.integer_tilings, spec),
            InputKind::Aligned | InputKind::Unaligned => Tiling::of_layer(&self.tilings, spec),
            InputKind::Halves(groups) => {
                self.half_tilings.clone().unwrap_or_else(|| Tiling::halves(groups, gpu.room()))
            }
            InputKind::Single(groups) | InputKind::SingleNormed(groups) => self
                .half_tilings
                .clone()
                .unwrap_or_else(|| vec![Tiling::single(groups, spec.is_gated(), gpu.room())]),
        };
        let tiled: Tiled =
            tilings.into_iter().map(|tiling| (tiling, self.pipeline(gpu, spec, tiling))).collect();
        known.push((spec, Arc::clone(&tiled)));
        tiled
    }

    fn pipeline(&self, gpu: &Gpu, spec: LinearSpec, tiling: Tiling) -> Pipeline {
        let text = (self.source)(spec, tiling);
        // SAFETY: all loops end, and every index is below the length that it indexes: outputs, groups and rows
        // are clamped to the shape, which `Linear` has checked against the buffers that it binds. The bindings are those
        // of the layout.
        unsafe { gpu.compiler.pipeline("a linear layer", &text, &self.pipeline_layout) }
    }

    /// The pipeline that makes integers of floats.
    pub(super) fn quantize(&self, gpu: &Gpu, input: InputKind) -> Pipeline {
        // SAFETY: as above.
        unsafe { gpu.compiler.pipeline("quantize", &quantize_source(input), &self.pipeline_layout) }
    }

    /// The pipeline that makes halves of floats.
    pub(super) fn to_halves(&self, gpu: &Gpu, input: InputKind) -> Pipeline {
        // SAFETY: as above.
        unsafe { gpu.compiler.pipeline("to halves", &to_halves_source(input), &self.pipeline_layout) }
    }

    /// Binds both planes of two matrices and their biases, an input and an output, which may be integers or halves too, and
    /// the shape.
    #[allow(clippy::too_many_arguments, reason = "they are the bindings")]
    pub(super) fn bind(
        &self,
        gpu: &Gpu,
        name: &str,
        weights: [wgpu::BindingResource; 6],
        operands: [wgpu::BindingResource; 2],
        rounded: Option<&wgpu::Buffer>,
        shape: Shape,
        batch: &wgpu::Buffer,
    ) -> Result<wgpu::BindGroup> {
        gpu.scoped(name, || {
            let uniform = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("linear shape"),
                size: size_of::<Shape>() as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            gpu.queue.write_buffer(&uniform, 0, bytemuck::bytes_of(&shape));
            let sizes = [uniform.as_entire_binding(), batch.as_entire_binding()];
            let rounded = self.unused.as_ref().map(|unused| rounded.unwrap_or(unused).as_entire_binding());
            let resources = weights.into_iter().chain(operands).chain(sizes);
            let resources = resources.chain(rounded);
            let entries = resources.zip(0..);
            let entries = entries.map(|(resource, binding)| wgpu::BindGroupEntry { binding, resource });
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(name),
                layout: &self.bindings,
                entries: &entries.collect::<Vec<_>>(),
            })
        })
    }
}
