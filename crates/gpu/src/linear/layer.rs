//! A linear layer: its kernels, its operands bound once, and the recording of its dispatches.

use std::ops::Range;

use gleed_model::program::Activation;

use super::shader::{LinearSpec, Tiling, cooperative, source};
use super::weight::{PackedWeight, Piece};
use crate::{Error, Gpu, Result};

/// The tilings that a device's linear layers come in, and what all of them bind.
#[derive(Debug)]
pub struct LinearKernels {
    tilings: Vec<Tiling>,
    bindings: wgpu::BindGroupLayout,
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
                    6 => storage(false),
                    7.. => wgpu::BufferBindingType::Uniform,
                    _ => storage(true),
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..9).map(entry).collect();
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

    fn pipelines(&self, gpu: &Gpu, spec: LinearSpec) -> Result<Vec<(Tiling, wgpu::ComputePipeline)>> {
        self.tilings.iter().map(|tiling| Ok((*tiling, self.pipeline(gpu, spec, *tiling)?))).collect()
    }

    fn pipeline(&self, gpu: &Gpu, spec: LinearSpec, tiling: Tiling) -> Result<wgpu::ComputePipeline> {
        // SAFETY: all loops end, and every index is below the length that it indexes: outputs, groups and rows
        // are clamped to the shape, which `Linear` has checked against the buffers that it binds.
        unsafe { gpu.pipeline("a linear layer", &source(spec, tiling), Some(&self.pipeline_layout)) }
    }
}

/// Rows of floats in a larger buffer: row r starts at `offset + r · stride`, all in floats.
#[derive(Debug, Clone, Copy)]
pub struct RowsView<'a> {
    /// The buffer.
    pub buffer: &'a wgpu::Buffer,
    /// Where the first row starts.
    pub offset: u32,
    /// How far rows are apart.
    pub stride: u32,
}

impl RowsView<'_> {
    /// Rows of so many floats that the buffer has room for.
    fn room(self, width: u64) -> u64 {
        let floats = self.buffer.size() / 4;
        let (offset, stride) = (u64::from(self.offset), u64::from(self.stride));
        match floats.checked_sub(offset + width) {
            Some(_) if stride == 0 => 1,
            Some(more) => more / stride + 1,
            None => 0,
        }
    }
}

/// A matrix and what is added to its outputs.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The matrix.
    pub weight: &'a PackedWeight,
    /// One value per row of the matrix.
    pub bias: Option<&'a [f32]>,
}

/// What a linear layer reads and writes besides its matrices. Input and output are different buffers.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a> {
    /// The activations; offset and stride are multiples of four.
    pub input: RowsView<'a>,
    /// Where the results go.
    pub output: RowsView<'a>,
    /// A uniform buffer of 16 bytes whose first word is the number of rows of a step.
    pub batch: &'a wgpu::Buffer,
}

/// A linear layer with everything bound.
#[derive(Debug, Clone)]
pub struct Linear {
    dispatches: Vec<Dispatch>,
    gated: bool,
    pipelines: Vec<(Tiling, wgpu::ComputePipeline)>,
}

/// The part of a layer whose rows are in one piece of each matrix.
#[derive(Debug, Clone)]
struct Dispatch {
    outputs: u32,
    bind_group: wgpu::BindGroup,
}

/// As in `linear_common.wgsl`.
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Shape {
    columns: u32,
    groups: u32,
    outputs: u32,
    first_a: u32,
    first_b: u32,
    rest_a: u32,
    rest_b: u32,
    input_offset: u32,
    input_stride: u32,
    output_offset: u32,
    output_stride: u32,
    bias_a: u32,
    bias_b: u32,
    most_rows: u32,
    padding: [u32; 2],
}

impl Linear {
    /// out = matrix · input (+ bias); `name` is for messages.
    pub fn new(
        gpu: &Gpu,
        kernels: &LinearKernels,
        name: &str,
        matrix: Matrix,
        operands: Operands,
    ) -> Result<Linear> {
        Linear::build(gpu, kernels, name, matrix, None, operands)
    }

    /// out = activation(gate · input (+ bias)) · (up · input (+ bias)).
    pub fn gated(
        gpu: &Gpu,
        kernels: &LinearKernels,
        name: &str,
        activation: Activation,
        [gate, up]: [Matrix; 2],
        operands: Operands,
    ) -> Result<Linear> {
        Linear::build(gpu, kernels, name, gate, Some((activation, up)), operands)
    }

    fn build(
        gpu: &Gpu,
        kernels: &LinearKernels,
        name: &str,
        a: Matrix,
        gated: Option<(Activation, Matrix)>,
        operands: Operands,
    ) -> Result<Linear> {
        let b = gated.map_or(a, |(_, up)| up);
        let (packing, other) = (a.weight.packing(), b.weight.packing());
        check(name, a, b, operands)?;
        let spec = LinearSpec {
            layout: packing.layout(),
            gated: gated.map(|(activation, _)| (other.layout(), activation)),
            bias: a.bias.is_some() || b.bias.is_some(),
        };
        let pipelines = kernels.pipelines(gpu, spec)?;
        let bias = bias_buffer(gpu, name, a, b, spec.bias)?;
        let room = operands.input.room(packing.columns().next_multiple_of(4) as u64);
        let most_rows = room.min(operands.output.room(packing.rows() as u64));
        let shape = Shape {
            columns: packing.columns() as u32,
            groups: packing.groups() as u32,
            rest_a: packing.rest_row() as u32,
            rest_b: other.rest_row() as u32,
            input_offset: operands.input.offset / 4,
            input_stride: operands.input.stride / 4,
            output_stride: operands.output.stride,
            most_rows: u32::try_from(most_rows).unwrap_or(u32::MAX),
            ..Shape::default()
        };
        let mut dispatches = Vec::new();
        for (rows, pieces) in common_pieces(a.weight, b.weight) {
            let outputs = rows.len() as u32;
            let first = rows.start as u32;
            let shape = Shape {
                outputs,
                first_a: (rows.start - pieces[0].rows.start) as u32,
                first_b: (rows.start - pieces[1].rows.start) as u32,
                output_offset: operands.output.offset + first,
                bias_a: first,
                bias_b: packing.rows() as u32 + first,
                ..shape
            };
            let bind_group = gpu.scoped(name, || {
                let uniform = wgpu::BufferUsages::UNIFORM;
                let shape = filled(gpu, "linear shape", uniform, bytemuck::bytes_of(&shape));
                let resources = [
                    pieces[0].low(),
                    pieces[0].rest(),
                    pieces[1].low(),
                    pieces[1].rest(),
                    bias.as_entire_binding(),
                    operands.input.buffer.as_entire_binding(),
                    operands.output.buffer.as_entire_binding(),
                    shape.as_entire_binding(),
                    operands.batch.as_entire_binding(),
                ];
                let entries = resources
                    .into_iter()
                    .zip(0..)
                    .map(|(resource, binding)| wgpu::BindGroupEntry { binding, resource });
                gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(name),
                    layout: &kernels.bindings,
                    entries: &entries.collect::<Vec<_>>(),
                })
            })?;
            dispatches.push(Dispatch { outputs, bind_group });
        }
        Ok(Linear { dispatches, gated: gated.is_some(), pipelines })
    }

    /// Records the layer for a step of `rows` rows: the number in [`Operands::batch`], or more.
    pub fn record(&self, pass: &mut wgpu::ComputePass, rows: u32) {
        let fitting = self.pipelines.iter().find(|(tiling, _)| tiling.rows() >= rows);
        let Some((tiling, pipeline)) = fitting.or(self.pipelines.last()) else { return };
        if rows == 0 {
            return;
        }
        pass.set_pipeline(pipeline);
        for dispatch in &self.dispatches {
            pass.set_bind_group(0, &dispatch.bind_group, &[]);
            let outputs = dispatch.outputs.div_ceil(tiling.outputs(self.gated));
            pass.dispatch_workgroups(outputs, rows.div_ceil(tiling.rows()), 1);
        }
    }
}

/// That the operands fit each other.
fn check(name: &str, a: Matrix, b: Matrix, operands: Operands) -> Result<()> {
    let wrong =
        |expected: String, found: String| Err(Error::Tensor { name: name.to_string(), expected, found });
    let (first, second) = (a.weight.packing(), b.weight.packing());
    if (first.rows(), first.columns()) != (second.rows(), second.columns()) {
        return wrong(
            format!("two matrices of {} x {}", first.rows(), first.columns()),
            format!("a second of {} x {}", second.rows(), second.columns()),
        );
    }
    for matrix in [a, b] {
        if let Some(bias) = matrix.bias
            && bias.len() != first.rows()
        {
            return wrong(format!("a bias of {} values", first.rows()), format!("{} values", bias.len()));
        }
    }
    let RowsView { offset, stride, .. } = operands.input;
    if !offset.is_multiple_of(4) || !stride.is_multiple_of(4) {
        return wrong(
            "an input whose rows start at multiples of four floats".to_string(),
            format!("an offset of {offset} and a stride of {stride}"),
        );
    }
    Ok(())
}

/// The rows that lie in one piece of either matrix, and those pieces.
fn common_pieces<'a>(
    a: &'a PackedWeight,
    b: &'a PackedWeight,
) -> impl Iterator<Item = (Range<usize>, [&'a Piece; 2])> {
    a.pieces().iter().flat_map(|a| b.pieces().iter().map(move |b| [a, b])).filter_map(|[a, b]| {
        let rows = a.rows.start.max(b.rows.start)..a.rows.end.min(b.rows.end);
        (!rows.is_empty()).then_some((rows, [a, b]))
    })
}

/// The biases of both matrices, one after the other. Where only one has a bias the other adds -0, which
/// changes nothing.
fn bias_buffer(gpu: &Gpu, name: &str, a: Matrix, b: Matrix, needed: bool) -> Result<wgpu::Buffer> {
    let rows = a.weight.packing().rows();
    let mut values = vec![-0.0f32; if needed { 2 * rows } else { 4 }];
    for (matrix, at) in [(a, 0), (b, rows)] {
        if let Some(bias) = matrix.bias {
            values[at..at + rows].copy_from_slice(bias);
        }
    }
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    gpu.scoped(name, || filled(gpu, "linear bias", wgpu::BufferUsages::STORAGE, bytes))
}

/// A buffer with these bytes, a multiple of four of them.
fn filled(gpu: &Gpu, label: &str, usage: wgpu::BufferUsages, bytes: &[u8]) -> wgpu::Buffer {
    let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: bytes.len() as u64,
        usage: usage | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    gpu.queue.write_buffer(&buffer, 0, bytes);
    buffer
}
