//! Activations as halves: buffers of them, and the dispatch that makes them of floats.

use super::half_layout::UNIT;
use super::layer::Shape;
use super::layout::GROUP;
use super::operands::RowsView;
use super::pipelines::LinearKernels;
use crate::compiler::{Pipeline, Run};
use crate::{Gpu, Result};

/// Room for rows of halves. Rows of fewer columns than there is room for lie closer. A row that is alone has groups with
/// factors of their own, as it may be written by workgroups that have a part of it, and sums of squares beside them where
/// it is the input of an RMS norm times the norm's weights.
#[derive(Debug, Clone)]
pub struct HalfRows {
    buffer: wgpu::Buffer,
    rows: usize,
    columns: usize,
}

impl HalfRows {
    /// Room for so many rows of up to so many columns.
    pub fn new(gpu: &Gpu, rows: usize, columns: usize) -> Result<HalfRows> {
        let buffer = gpu.storage("activations as halves", HalfRows::bytes(rows, columns))?;
        Ok(HalfRows { buffer, rows, columns })
    }

    /// Bytes that it takes.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        let vectors = rows * HalfRows::stride(columns) as usize + rows.div_ceil(4);
        16 * (vectors + 2 * HalfRows::groups(columns).div_ceil(4)) as u64
    }

    /// The halves: `[row][group][4]` of eight halves each, then the factors of the rows, those of the groups of a single
    /// row, and its groups' sums of squares.
    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Where the factors of rows begin, in vectors of four words.
    pub(crate) fn factors(&self) -> usize {
        self.rows * HalfRows::stride(self.columns) as usize
    }

    /// The same of a single row's groups.
    pub(crate) fn group_factors(&self) -> usize {
        self.factors() + self.rows.div_ceil(4)
    }

    /// The same of their sums of squares.
    pub(crate) fn squares(&self) -> usize {
        self.group_factors() + HalfRows::groups(self.columns).div_ceil(4)
    }

    pub(crate) fn columns(&self) -> usize {
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
            group_factors: output.group_factors() as u32,
            ..Shape::default()
        };
        let pipeline = kernels.to_halves(gpu, input.kind());
        // The bindings of weights and biases are not read.
        let unused = || input.buffer.as_entire_binding();
        let operands = [input.buffer.as_entire_binding(), output.buffer.as_entire_binding()];
        let bind_group =
            kernels.bind(gpu, "to halves", [(); 6].map(|()| unused()), operands, None, shape, batch)?;
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
