//! What is planned, on a device of wgpu: its buffers, its kernels, and what they bind.

use std::ops::Index;

use crate::compiler::Pipeline;
use crate::launch::{
    Access, Bindings, BindingsId, Buffer, KernelId, Kernels, Operand, Part, Purpose, Reserved, Run,
};
use crate::{Error, Gpu, Result};

/// The buffers of a plan, by their numbers.
#[derive(Debug, Default)]
pub struct Buffers(Vec<wgpu::Buffer>);

impl Buffers {
    /// Makes those that are not there yet, within the device's limits.
    pub fn allocate(&mut self, gpu: &Gpu, kernels: &Kernels) -> Result<()> {
        for Reserved { what, bytes, purpose } in &kernels.all_buffers()[self.0.len()..] {
            self.0.push(match purpose {
                Purpose::Storage => gpu.storage(what, *bytes)?,
                Purpose::Weights => gpu.weights(what, *bytes)?,
                Purpose::Uniform => gpu.uniform(what)?,
            });
        }
        Ok(())
    }
}

impl Index<Buffer> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, buffer: Buffer) -> &wgpu::Buffer {
        &self.0[buffer.number()]
    }
}

/// How kernels with the same slots bind them.
struct Layout {
    slots: Vec<Access>,
    of_bindings: wgpu::BindGroupLayout,
    of_pipelines: wgpu::PipelineLayout,
}

impl Layout {
    fn new(gpu: &Gpu, slots: &[Access]) -> Result<Layout> {
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let entry = |(binding, access): (u32, &Access)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match access {
                    Access::Reads => storage(true),
                    Access::Writes => storage(false),
                    Access::Uniform => wgpu::BufferBindingType::Uniform,
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..).zip(slots).map(entry).collect();
        gpu.scoped("the bindings of kernels", || {
            let descriptor = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
            let of_bindings = gpu.device.create_bind_group_layout(&descriptor);
            let of_pipelines = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&of_bindings)],
                immediate_size: 0,
            });
            Layout { slots: slots.to_vec(), of_bindings, of_pipelines }
        })
    }
}

/// The kernels of a plan, which are compiled when they are needed, and what they bind.
#[derive(Default)]
pub struct Bound {
    layouts: Vec<Layout>,
    pipelines: Vec<Pipeline>,
    bindings: Vec<wgpu::BindGroup>,
}

impl Bound {
    /// Binds what is not bound yet, to these buffers.
    pub fn bind(&mut self, gpu: &Gpu, kernels: &Kernels, buffers: &Buffers) -> Result<()> {
        for kernel in &kernels.all_kernels()[self.pipelines.len()..] {
            let layout = self.layout(gpu, &kernel.slots)?;
            let layout = &self.layouts[layout].of_pipelines;
            // SAFETY: what is promised where kernels are planned; their slots are those of the layout.
            self.pipelines.push(unsafe { gpu.compiler.pipeline(kernel.name, &kernel.text, layout) });
        }
        for bindings in &kernels.all_bindings()[self.bindings.len()..] {
            let layout = self.layout(gpu, &bindings.slots)?;
            let made = bind(gpu, &self.layouts[layout].of_bindings, bindings, buffers)?;
            self.bindings.push(made);
        }
        Ok(())
    }

    fn layout(&mut self, gpu: &Gpu, slots: &[Access]) -> Result<usize> {
        if let Some(known) = self.layouts.iter().position(|layout| layout.slots == slots) {
            return Ok(known);
        }
        self.layouts.push(Layout::new(gpu, slots)?);
        Ok(self.layouts.len() - 1)
    }

    /// Records a launch.
    pub fn record(&self, pass: &mut wgpu::ComputePass, run: Run) -> Result<()> {
        let [x, y] = run.groups;
        pass.set_pipeline(self.pipeline(run.kernel).get()?);
        pass.set_bind_group(0, &self.bindings[run.bindings.number()], &[]);
        pass.dispatch_workgroups(x, y, 1);
        Ok(())
    }

    pub(crate) fn pipeline(&self, kernel: KernelId) -> &Pipeline {
        &self.pipelines[kernel.number()]
    }

    /// A kernel with what it binds.
    pub(crate) fn launch(&self, kernel: KernelId, bindings: BindingsId) -> (Pipeline, wgpu::BindGroup) {
        (self.pipeline(kernel).clone(), self.bindings[bindings.number()].clone())
    }

    pub(crate) fn pipelines(&self, kernels: &[KernelId]) -> impl Iterator<Item = Pipeline> {
        kernels.iter().map(|kernel| self.pipeline(*kernel).clone())
    }
}

/// A bind group; the constants of a launch get a buffer of their own.
fn bind(
    gpu: &Gpu,
    layout: &wgpu::BindGroupLayout,
    Bindings { what, operands, .. }: &Bindings,
    buffers: &Buffers,
) -> Result<wgpu::BindGroup> {
    let what = format!("binding {what}");
    let parts = operands.iter().map(|operand| match operand {
        Operand::Words(words) => Ok((gpu.constants(&what, words)?, 0, 4 * words.len() as u64)),
        Operand::Part(Part { buffer, offset, bytes }) if buffers[*buffer].size() == buffer.size() => {
            Ok((buffers[*buffer].clone(), *offset, *bytes))
        }
        Operand::Part(_) => {
            let (adapter, reason) = (gpu.info.name.clone(), "a buffer is not the one planned".to_string());
            Err(Error::Device { adapter, what: what.clone(), reason })
        }
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let entries = (0..).zip(&parts).map(|(binding, (buffer, offset, bytes))| {
        let size = wgpu::BufferSize::new(*bytes);
        let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: *offset, size });
        wgpu::BindGroupEntry { binding, resource }
    });
    let entries: Vec<_> = entries.collect();
    gpu.scoped(&what, || {
        let descriptor = wgpu::BindGroupDescriptor { label: Some(&what), layout, entries: &entries };
        gpu.device.create_bind_group(&descriptor)
    })
}
