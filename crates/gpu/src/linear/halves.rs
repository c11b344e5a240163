//! Activations as halves: buffers of them, and the dispatch that makes them of floats.

use super::half_layout::UNIT;
use super::layer::Shape;
use super::layout::GROUP;
use super::operands::RowsView;
use super::pipelines::LinearKernels;
use crate::compiler::{Pipeline, Run};
use crate::{Gpu, Result};

/// Room for rows of halves. Rows of fewer columns than there is room for lie closer.
#[derive(Debug, Clone)]
pub struct HalfRows {
    buffer: wgpu::Buffer,
    squares: wgpu::Buffer,
    rows: usize,
    columns: usize,
}

impl HalfRows {
    /// Room for so many rows of up to so many columns.
    pub fn new(gpu: &Gpu, rows: usize, columns: usize) -> Result<HalfRows> {
        let squares = gpu.storage("sums of squares", square_bytes(columns))?;
        let buffer = gpu.storage("activations as halves", row_bytes(rows, columns))?;
        Ok(HalfRows { buffer, squares, rows, columns })
    }

    /// Bytes that it takes.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        row_bytes(rows, columns) + square_bytes(columns)
    }

    /// The sums of squares of a single row's groups, between layers that do the work of a norm.
    pub(crate) fn squares(&self) -> &wgpu::Buffer {
        &self.squares
    }

    /// The halves: `[row][group][4]` of eight halves each, then the factors of the rows.
    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
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

    /// Groups of so many columns, with those that rows are filled up to.
    pub(super) fn groups(columns: usize) -> usize {
        columns.div_ceil(GROUP).next_multiple_of(UNIT)
    }

    /// Vectors of a row of so many columns.
    pub(crate) fn stride(columns: usize) -> u32 {
        (HalfRows::groups(columns) * 4) as u32
    }
}

fn factors_at(rows: usize, columns: usize) -> usize {
    rows * HalfRows::stride(columns) as usize
}

/// Bytes of so many rows and their factors.
fn row_bytes(rows: usize, columns: usize) -> u64 {
    16 * (factors_at(rows, columns) + rows.div_ceil(4)) as u64
}

/// Bytes of the sums of squares of a row of so many columns, in whole vectors.
fn square_bytes(columns: usize) -> u64 {
    16 * columns.div_ceil(4 * GROUP).max(1) as u64
}

/// The dispatch that makes halves of floats, with everything bound.
#[derive(Debug, Clone)]
pub struct ToHalves {
    pipeline: Pipeline,
    bind_group: wgpu::BindGroup,
}

impl ToHalves {
    /// Makes halves of the first `columns` floats of each row; `batch` as in [`Operands`](super::Operands).
    pub fn new(
        gpu: &Gpu,
        kernels: &LinearKernels,
        input: RowsView,
        columns: usize,
        output: &HalfRows,
        batch: &wgpu::Buffer,
    ) -> Result<ToHalves> {
        let (input_offset, input_stride) = input.offset_and_stride();
        let room = if columns <= output.columns { output.rows() } else { 0 };
        let shape = Shape {
            columns: columns as u32,
            groups: HalfRows::groups(columns) as u32,
            input_offset,
            input_stride,
            most_rows: u32::try_from(input.room(columns as u64).min(room)).unwrap_or(u32::MAX),
            factors: output.factors() as u32,
            ..Shape::default()
        };
        let pipeline = kernels.to_halves(gpu, input.kind());
        // The bindings of weights and biases are not read.
        let unused = || input.buffer.as_entire_binding();
        let operands = [input.buffer.as_entire_binding(), output.buffer.as_entire_binding()];
        let bind_group =
            kernels.bind(gpu, "to halves", [(); 6].map(|()| unused()), operands, None, None, shape, batch)?;
        Ok(ToHalves { pipeline, bind_group })
    }

    /// Records it for so many rows.
    pub fn record(&self, pass: &mut wgpu::ComputePass, rows: u32) -> Result<()> {
        self.run(rows).map_or(Ok(()), |run| run.record(pass))
    }

    /// What is recorded for so many rows.
    pub(crate) fn run(&self, rows: u32) -> Option<Run<'_>> {
        let groups = [1, rows];
        (rows > 0).then_some(Run { pipeline: &self.pipeline, bindings: &self.bind_group, groups })
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}
