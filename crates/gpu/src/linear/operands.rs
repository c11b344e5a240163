//! What linear layers read and write besides their matrices.

use super::halves::HalfRows;
use super::quantize::Quantized;
use super::shader::InputKind;
use super::weight::PackedWeight;
use crate::launch::Buffer;

/// Rows of floats in a larger buffer: row r starts at `offset + r · stride`, all in floats. Inputs are read
/// faster where both are multiples of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsView {
    /// The buffer.
    pub buffer: Buffer,
    /// Where the first row starts.
    pub offset: u32,
    /// How far rows are apart.
    pub stride: u32,
}

impl RowsView {
    /// Rows of `width` floats that the buffer has room for.
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
    pub bias: Option<Buffer>,
}

/// The activations that a linear layer reads.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// Floats.
    Floats(RowsView),
    /// Integers with scales, for matrices of integers.
    Integers(Quantized),
    /// The same of rows that an RMS norm has multiplied with its weights, but not with their factors yet: results
    /// are. The number is what the norm adds to the mean of squares.
    Normed(Quantized, f32),
    /// Halves, for any matrices.
    Halves(HalfRows),
    /// A single row of halves.
    Single(HalfRows),
    /// The same of a row that an RMS norm has multiplied with its weights, but not with its factor yet. The number is what
    /// the norm adds to the mean of squares.
    SingleNormed(HalfRows, f32),
}

impl Input {
    /// What it is for matrices of `columns` columns.
    pub(super) fn kind(self, columns: usize) -> InputKind {
        match self {
            Input::Floats(view) => view.kind(),
            Input::Integers(_) | Input::Normed(..) => InputKind::Integers,
            Input::Halves(_) => InputKind::Halves(HalfRows::groups(columns) as u32),
            Input::SingleNormed(..) => InputKind::SingleNormed(HalfRows::groups(columns) as u32),
            Input::Single(_) => InputKind::Single(HalfRows::groups(columns) as u32),
        }
    }

    pub(super) fn quantized(&self) -> Option<Quantized> {
        match self {
            Input::Floats(_) | Input::Single(_) | Input::SingleNormed(..) | Input::Halves(_) => None,
            Input::Integers(quantized) | Input::Normed(quantized, _) => Some(*quantized),
        }
    }

    pub(super) fn halves(&self) -> Option<HalfRows> {
        match self {
            Input::Halves(halves) | Input::Single(halves) | Input::SingleNormed(halves, _) => Some(*halves),
            Input::Floats(_) | Input::Integers(_) | Input::Normed(..) => None,
        }
    }

    pub(super) fn buffer(&self) -> Buffer {
        match self {
            Input::Floats(view) => view.buffer,
            Input::Halves(halves) | Input::Single(halves) | Input::SingleNormed(halves, _) => halves.buffer(),
            Input::Integers(quantized) | Input::Normed(quantized, _) => quantized.buffer(),
        }
    }
}

/// The RMS norm of the sum of a layer's results and its output, of which the layer does what is before the factors
/// of rows.
#[derive(Debug, Clone, Copy)]
pub struct NextNorm {
    /// A storage buffer of the norm's weights, one float per output.
    pub weight: Buffer,
    /// Where sums times weights go, with their sums of squares.
    pub rounded: Rounded,
}

/// Where results go as the next layer reads them.
#[derive(Debug, Clone, Copy)]
pub enum Rounded {
    /// As integers.
    Integers(Quantized),
    /// A single row, as halves.
    Halves(HalfRows),
}

impl Rounded {
    pub(super) fn buffer(&self) -> Buffer {
        match self {
            Rounded::Integers(quantized) => quantized.buffer(),
            Rounded::Halves(halves) => halves.buffer(),
        }
    }

    /// Whether a layer reads from there.
    pub(crate) fn is_input(&self, input: &Input) -> bool {
        self.buffer() == input.buffer()
    }

    pub(super) fn columns(&self) -> usize {
        match self {
            Rounded::Integers(quantized) => quantized.columns(),
            Rounded::Halves(halves) => halves.columns(),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        match self {
            Rounded::Integers(quantized) => quantized.rows(),
            Rounded::Halves(_) => 1,
        }
    }

    /// Where the factors of groups and their sums of squares begin, in words.
    pub(super) fn factors_and_squares(&self) -> [u32; 2] {
        match self {
            // Factors are beside the integers.
            Rounded::Integers(quantized) => [0, 4 * quantized.squares() as u32],
            Rounded::Halves(halves) => [halves.group_factors(), halves.squares()].map(|at| 4 * at as u32),
        }
    }

    /// Whether it is what a layer reads that writes there.
    pub(super) fn fits(&self, input: Input) -> bool {
        match self {
            Rounded::Integers(_) => matches!(input, Input::Integers(_) | Input::Normed(..)),
            Rounded::Halves(_) => matches!(input, Input::Single(_) | Input::SingleNormed(..)),
        }
    }
}

/// What a linear layer reads and writes besides its matrices. Input and output are different buffers.
#[derive(Debug, Clone, Copy)]
pub struct Operands {
    /// The activations.
    pub input: Input,
    /// Where the results go.
    pub output: RowsView,
    /// Where the results of a gated layer go for the next layer too, when there are few rows.
    pub rounded: Option<Rounded>,
    /// A uniform buffer of 16 bytes whose first word is the number of rows of a step.
    pub batch: Buffer,
}
