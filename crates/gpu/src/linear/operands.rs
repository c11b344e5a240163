//! What linear layers read and write besides their matrices.

use super::halves::HalfRows;
use super::quantize::Quantized;
use super::shader::InputKind;
use super::weight::PackedWeight;

/// Rows of floats in a larger buffer: row r starts at `offset + r · stride`, all in floats. Inputs are read
/// faster where both are multiples of four.
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
    pub(super) fn room(self, width: u64) -> u64 {
        let floats = self.buffer.size() / 4;
        let (offset, stride) = (u64::from(self.offset), u64::from(self.stride));
        match floats.checked_sub(offset + width) {
            Some(_) if stride == 0 => 1,
            Some(more) => more / stride + 1,
            None => 0,
        }
    }

    /// Whether rows can be read four floats at a time: they start at multiples of four, and what is beyond
    /// the last column of the last row is in the buffer.
    pub(super) fn kind(self) -> InputKind {
        let aligned = [u64::from(self.offset), u64::from(self.stride), self.buffer.size() / 4]
            .iter()
            .all(|floats| floats.is_multiple_of(4));
        if aligned { InputKind::Aligned } else { InputKind::Unaligned }
    }

    /// Whether rows can be read four floats at a time.
    pub(crate) fn is_aligned(self) -> bool {
        self.kind() == InputKind::Aligned
    }

    /// Where rows start and how far they are apart, in what a kernel reads at a time.
    pub(super) fn offset_and_stride(self) -> (u32, u32) {
        let element = if self.kind() == InputKind::Aligned { 4 } else { 1 };
        (self.offset / element, self.stride / element)
    }
}

/// A matrix and what is added to its outputs.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The matrix.
    pub weight: &'a PackedWeight,
    /// A storage buffer of one float per row of the matrix.
    pub bias: Option<&'a wgpu::Buffer>,
}

/// The activations that a linear layer reads.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Floats.
    Floats(RowsView<'a>),
    /// Integers with scales, for matrices of integers.
    Integers(&'a Quantized),
    /// The same of rows that an RMS norm has multiplied with its weights, but not with their factors yet: results
    /// are. The number is what the norm adds to the mean of squares.
    Normed(&'a Quantized, f32),
    /// Halves, for any matrices.
    Halves(&'a HalfRows),
    /// A single row of aligned floats, multiplied in halves.
    Single(RowsView<'a>),
    /// The same of which the RMS norm is taken first.
    SingleNormed(RowsView<'a>, RowNorm<'a>),
}

impl Input<'_> {
    /// What it is for matrices of so many columns.
    pub(super) fn kind(self, columns: usize) -> InputKind {
        match self {
            Input::Floats(view) => view.kind(),
            Input::Integers(_) | Input::Normed(..) => InputKind::Integers,
            Input::Halves(_) => InputKind::Halves(HalfRows::groups(columns) as u32),
            Input::SingleNormed(..) => InputKind::SingleNormed(HalfRows::groups(columns) as u32),
            Input::Single(_) => InputKind::Single(HalfRows::groups(columns) as u32),
        }
    }

    /// Whether it is integers that are there.
    pub(crate) fn is_in(&self, quantized: &Quantized) -> bool {
        self.buffer() == quantized.buffer()
    }

    pub(super) fn quantized(&self) -> Option<&Quantized> {
        match self {
            Input::Floats(_) | Input::Single(_) | Input::SingleNormed(..) | Input::Halves(_) => None,
            Input::Integers(quantized) | Input::Normed(quantized, _) => Some(quantized),
        }
    }

    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        match self {
            Input::Floats(view) | Input::Single(view) | Input::SingleNormed(view, ..) => view.buffer,
            Input::Halves(halves) => halves.buffer(),
            Input::Integers(quantized) | Input::Normed(quantized, _) => quantized.buffer(),
        }
    }
}

/// The RMS norm of a single row, the squares of which are added up by groups already.
#[derive(Debug, Clone, Copy)]
pub struct RowNorm<'a> {
    /// A storage buffer of its weights, one float per column.
    pub weight: &'a wgpu::Buffer,
    /// One of the sums of squares, one float for each 32 columns.
    pub squares: &'a wgpu::Buffer,
    /// What it adds to the mean of squares.
    pub epsilon: f32,
    /// What its results are divided by as halves.
    pub half_factor: f32,
}

/// The RMS norm of the sum of a layer's results and its output, of which the layer does what is before the factors
/// of rows.
#[derive(Debug, Clone, Copy)]
pub struct NextNorm<'a> {
    /// A storage buffer of the norm's weights, one float per output.
    pub weight: &'a wgpu::Buffer,
    /// Where sums times weights go as integers, with their sums of squares.
    pub integers: &'a Quantized,
}

/// What a linear layer reads and writes besides its matrices. Input and output are different buffers.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a> {
    /// The activations.
    pub input: Input<'a>,
    /// Where the results go.
    pub output: RowsView<'a>,
    /// Where the results of a gated layer go as integers too, when there are few rows.
    pub integers: Option<&'a Quantized>,
    /// A uniform buffer of 16 bytes whose first word is the number of rows of a step.
    pub batch: &'a wgpu::Buffer,
}
