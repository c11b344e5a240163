//! The launch that makes integers or halves of floats.

use super::halves::HalfRows;
use super::kernels::LinearKernels;
use super::layer::Shape;
use super::layout::GROUP;
use super::operands::RowsView;
use super::quantize::Quantized;
use super::shader::{quantize_source, to_halves_source};
use crate::launch::{BindingsId, Buffer, KernelId, Kernels, Run};

/// What makes integers or halves of the first `columns` floats of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    pub(crate) kernel: KernelId,
    bindings: BindingsId,
    /// Workgroups of a row.
    each: u32,
}

impl Conversion {
    /// To integers; `batch` as in [`Operands`](super::Operands).
    pub fn to_integers(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        input: RowsView,
        columns: usize,
        output: Quantized,
        batch: Buffer,
    ) -> Conversion {
        let groups = columns.div_ceil(GROUP) as u32;
        let shape = Shape { groups, ..shape(input, columns, (output.columns(), output.rows())) };
        let text = quantize_source(input.kind());
        let each = groups.div_ceil(32);
        new(kernels, linear, ("quantize", text), [input.buffer, output.buffer()], (shape, batch), each)
    }

    /// The same to halves.
    pub fn to_halves(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        input: RowsView,
        columns: usize,
        output: HalfRows,
        batch: Buffer,
    ) -> Conversion {
        let shape = Shape {
            groups: HalfRows::groups(columns) as u32,
            factors: output.factors() as u32,
            group_factors: output.group_factors() as u32,
            ..shape(input, columns, (output.columns(), output.rows()))
        };
        let text = to_halves_source(input.kind());
        new(kernels, linear, ("to halves", text), [input.buffer, output.buffer()], (shape, batch), 1)
    }

    /// What is recorded for `rows` rows.
    pub fn run(&self, rows: u32) -> Option<Run> {
        let Conversion { kernel, bindings, each } = *self;
        (rows > 0).then_some(Run { kernel, bindings, groups: [each, rows] })
    }
}

/// The sizes of an input and of its room as something else.
fn shape(input: RowsView, columns: usize, (most_columns, rows): (usize, u64)) -> Shape {
    let (input_offset, input_stride) = input.offset_and_stride();
    let room = if columns <= most_columns { rows } else { 0 };
    let most_rows = u32::try_from(input.room(columns as u64).min(room)).unwrap_or(u32::MAX);
    Shape { columns: columns as u32, input_offset, input_stride, most_rows, ..Shape::default() }
}

fn new(
    kernels: &mut Kernels,
    linear: &LinearKernels,
    (name, text): (&'static str, String),
    operands: [Buffer; 2],
    shape: (Shape, Buffer),
    each: u32,
) -> Conversion {
    // All loops end, and indices are below the sizes of the shape.
    let kernel = kernels.kernel(name, text, linear.slots());
    let operands = operands.map(Buffer::whole);
    // The bindings of weights and biases are not read.
    let bindings = linear.bind(kernels, name, [&[operands[0]; 6], &operands], None, shape);
    Conversion { kernel, bindings, each }
}
