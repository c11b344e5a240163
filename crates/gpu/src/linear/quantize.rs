//! Activations as integers: buffers of them, and the dispatch that makes them of floats.

use super::layer::Shape;
use super::layout::GROUP;
use super::operands::RowsView;
use super::pipelines::LinearKernels;
use crate::compiler::{Pipeline, Run};
use crate::{Gpu, Result};

/// Vectors of four words for every group of 32 columns: 32 bytes, then a scale and sums.
const VECTORS: usize = 3;

/// Room for rows of integers. Rows of fewer columns than there is room for lie closer.
#[derive(Debug, Clone)]
pub struct Quantized {
    buffer: wgpu::Buffer,
    rows: usize,
    columns: usize,
}

impl Quantized {
    /// Room for so many rows of up to so many columns.
    pub fn new(gpu: &Gpu, rows: usize, columns: usize) -> Result<Quantized> {
        let buffer = gpu.storage("activations as integers", Quantized::bytes(rows, columns))?;
        Ok(Quantized { buffer, rows, columns })
    }

    /// Bytes that it takes.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        16 * (factors_at(rows, columns) + rows.div_ceil(4)) as u64
    }

    /// The integers: `[row][group][3]` of four words each: 16 bytes, 16 more, and the scale with the sums of the
    /// first and of the last 16 and, as a float, both sums times the scale. Then what only norms write: the sums
    /// of squares of all groups, `[row][group]` in whole vectors of four, and the factors of the rows.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Where sums of squares begin, in vectors of four words.
    pub(crate) fn squares(&self) -> usize {
        squares_at(self.rows, self.columns)
    }

    /// Where the factors of rows begin, in vectors of four words.
    pub(crate) fn factors(&self) -> usize {
        factors_at(self.rows, self.columns)
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Vectors of a row of so many columns.
    pub(super) fn stride(&self, columns: usize) -> u32 {
        (columns.div_ceil(GROUP) * VECTORS) as u32
    }
}

fn squares_at(rows: usize, columns: usize) -> usize {
    rows * columns.div_ceil(GROUP) * VECTORS
}

fn factors_at(rows: usize, columns: usize) -> usize {
    squares_at(rows, columns) + rows * columns.div_ceil(4 * GROUP)
}

/// The dispatch that makes integers of floats, with everything bound.
#[derive(Debug, Clone)]
pub struct Quantize {
    pipeline: Pipeline,
    bind_group: wgpu::BindGroup,
    groups: u32,
}

impl Quantize {
    /// Makes integers of the first `columns` floats of each row; `batch` as in
    /// [`Operands`](super::Operands).
    pub fn new(
        gpu: &Gpu,
        kernels: &LinearKernels,
        input: RowsView,
        columns: usize,
        output: &Quantized,
        batch: &wgpu::Buffer,
    ) -> Result<Quantize> {
        let groups = columns.div_ceil(GROUP) as u32;
        let (input_offset, input_stride) = input.offset_and_stride();
        let room = if columns <= output.columns { output.rows() } else { 0 };
        let shape = Shape {
            columns: columns as u32,
            groups,
            input_offset,
            input_stride,
            most_rows: u32::try_from(input.room(columns as u64).min(room)).unwrap_or(u32::MAX),
            ..Shape::default()
        };
        let pipeline = kernels.quantize(gpu, input.kind());
        // The bindings of weights and biases are not read.
        let unused = || input.buffer.as_entire_binding();
        let operands = [input.buffer.as_entire_binding(), output.buffer.as_entire_binding()];
        let bind_group =
            kernels.bind(gpu, "quantize", [(); 6].map(|()| unused()), operands, None, shape, batch)?;
        Ok(Quantize { pipeline, bind_group, groups })
    }

    /// Records it for so many rows.
    pub fn record(&self, pass: &mut wgpu::ComputePass, rows: u32) -> Result<()> {
        self.run(rows).map_or(Ok(()), |run| run.record(pass))
    }

    /// What is recorded for so many rows.
    pub(crate) fn run(&self, rows: u32) -> Option<Run<'_>> {
        let groups = [self.groups.div_ceil(32), rows];
        (rows > 0).then_some(Run { pipeline: &self.pipeline, bindings: &self.bind_group, groups })
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}
