//! A linear layer: its operands bound once, and the recording of its launches.

use std::ops::Range;

use gleed_model::program::Activation;

use super::halves::HalfRows;
use super::kernels::{LinearKernels, Tiled};
use super::layout::GROUP;
use super::operands::{Input, Matrix, NextNorm, Operands, Rounded, RowsView};
use super::shader::{Combination, LinearSpec};
use super::tiling::{MULTIPROCESSORS, Tiling, fitting};
use super::weight::{PackedWeight, Piece};
use crate::launch::{BindingsId, Buffer, KernelId, Kernels, Run};
use crate::{Error, Result};

/// A linear layer with everything bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    launches: Vec<Launch>,
}

/// The part of a layer whose rows are in one piece of each matrix.
#[derive(Debug, Clone, PartialEq)]
struct Launch {
    /// Outputs that each matrix has workgroups for.
    outputs: [u32; 2],
    spec: LinearSpec,
    bindings: BindingsId,
    kernels: Tiled,
    /// Of the device.
    multiprocessors: u32,
}

impl Launch {
    /// The kernel for `rows` rows.
    fn fitting(&self, rows: u32) -> (Tiling, KernelId) {
        let quick = self.spec.has_mins();
        let cost = |tiling: Tiling| {
            let workgroups = self.blocks(tiling).iter().sum::<u32>() * rows.div_ceil(tiling.rows());
            tiling.half_cost(workgroups, self.spec.half_groups(), self.multiprocessors, quick)
        };
        *fitting(&self.kernels, rows, self.spec.input, cost).expect("a layer without a kernel is not made")
    }

    /// Workgroups for the outputs of each matrix.
    fn blocks(&self, tiling: Tiling) -> [u32; 2] {
        self.outputs.map(|outputs| outputs.div_ceil(tiling.outputs(self.spec)))
    }
}

/// As in `kernels/common.wgsl`.
#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Shape {
    pub(super) columns: u32,
    pub(super) groups: u32,
    pub(super) outputs: [u32; 2],
    pub(super) first: [u32; 2],
    pub(super) rest: [u32; 2],
    pub(super) bias: [u32; 2],
    pub(super) input_offset: u32,
    pub(super) input_stride: u32,
    pub(super) output: [u32; 2],
    pub(super) output_stride: u32,
    pub(super) most_rows: u32,
    pub(super) squares: u32,
    pub(super) factors: u32,
    pub(super) inverse_width: f32,
    pub(super) epsilon: f32,
    pub(super) written_squares: u32,
    pub(super) group_factors: u32,
    pub(super) written_factors: u32,
}

impl Shape {
    /// Its values in WGSL, in their order.
    pub(super) fn values(self) -> String {
        let Shape { columns, groups, outputs, first, rest, bias, input_offset, input_stride, .. } = self;
        let Shape { output, output_stride, most_rows, squares, factors, inverse_width, epsilon, .. } = self;
        let Shape { written_squares, group_factors, written_factors, .. } = self;
        let pairs = [outputs, first, rest, bias].concat();
        let before = [&[columns, groups][..], &pairs, &[input_offset, input_stride], &output].concat();
        let middle = [output_stride, most_rows, squares, factors];
        let words = before.into_iter().chain(middle).map(|word| format!("{word}u"));
        let floats = [inverse_width, epsilon].map(|float| format!("{float:?}f"));
        let after = [written_squares, group_factors, written_factors].map(|word| format!("{word}u"));
        words.chain(floats).chain(after).collect::<Vec<_>>().join(", ")
    }
}

/// What is common to the launches of a layer.
#[derive(Clone, Copy)]
struct Builder<'a> {
    linear: &'a LinearKernels,
    name: &'a str,
    operands: Operands,
    next_norm: Option<NextNorm>,
}

impl Linear {
    /// out = matrix · input (+ bias); `name` is for messages.
    pub fn new(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        name: &str,
        matrix: Matrix,
        operands: Operands,
    ) -> Result<Linear> {
        let builder = Builder { linear, name, operands, next_norm: None };
        builder.check([matrix; 2], false)?;
        Ok(Linear { launches: builder.plain(kernels, matrix)? })
    }

    /// out += matrix · input (+ bias), and out times the weights of the norm that follows as integers or halves, for
    /// steps of so few rows that [`Linear::requantizes`]; none where the input or the shape are not made for that.
    pub fn with_next_norm(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        name: &str,
        matrix: Matrix,
        operands: Operands,
        next_norm: NextNorm,
    ) -> Result<Option<Linear>> {
        let builder = Builder { linear, name, operands, next_norm: Some(next_norm) };
        builder.check([matrix; 2], false)?;
        let outputs = matrix.weight.packing().rows();
        if next_norm.weight.size() < 4 * outputs as u64 {
            let expected = format!("a norm's weights of {outputs} values");
            let found = format!("{} bytes", next_norm.weight.size());
            return Err(Error::Tensor { name: name.to_string(), expected, found });
        }
        // With factors of its own input, a product could be rounded or not before it is added.
        if !matches!(operands.input, Input::Integers(_) | Input::Single(_)) {
            return Ok(None);
        }
        let launches = builder.plain(kernels, matrix)?;
        let all = launches.iter().all(|dispatch| dispatch.spec.requantizes);
        Ok(all.then_some(Linear { launches }))
    }

    /// out = activation(gate · input (+ bias)) · (up · input (+ bias)).
    pub fn gated(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        name: &str,
        activation: Activation,
        matrices: [Matrix; 2],
        operands: Operands,
    ) -> Result<Linear> {
        let builder = Builder { linear, name, operands, next_norm: None };
        builder.check(matrices, true)?;
        let [gate, up] = matrices;
        let common = common_pieces(gate.weight, up.weight);
        let launches = common.map(|(rows, pieces)| {
            let output = [operands.output.offset + rows.start as u32; 2];
            let shape = Shape { output, ..builder.shape(matrices, gate.weight.packing().rows()) };
            let combination = Some(Combination::Gated(activation));
            builder.launch(kernels, matrices, pieces, [rows.clone(), rows], combination, shape)
        });
        Ok(Linear { launches: launches.collect::<Result<_>>()? })
    }

    /// out = the outputs of the first matrix, then those of the second, in one dispatch where both are in
    /// one piece each.
    pub fn joined(
        kernels: &mut Kernels,
        linear: &LinearKernels,
        name: &str,
        matrices: [Matrix; 2],
        operands: Operands,
    ) -> Result<Linear> {
        let builder = Builder { linear, name, operands, next_norm: None };
        builder.check(matrices, false)?;
        let [first, second] = matrices;
        let [rows, more] = matrices.map(|matrix| matrix.weight.packing().rows());
        let middle = operands.output.offset + rows as u32;
        if let ([a], [b]) = (first.weight.pieces(), second.weight.pieces()) {
            let output = [operands.output.offset, middle];
            let shape = Shape { output, ..builder.shape(matrices, rows + more) };
            let parts = [a.rows.clone(), b.rows.clone()];
            let launch =
                builder.launch(kernels, matrices, [a, b], parts, Some(Combination::Joined), shape)?;
            return Ok(Linear { launches: vec![launch] });
        }
        let mut launches = builder.plain(kernels, first)?;
        let output = RowsView { offset: middle, ..operands.output };
        let rest = Builder { operands: Operands { output, ..operands }, ..builder };
        launches.extend(rest.plain(kernels, second)?);
        Ok(Linear { launches })
    }

    /// Whether the results of `rows` rows are written for the next layer too.
    pub fn requantizes(&self, rows: u32) -> bool {
        self.launches.iter().all(|dispatch| {
            let fits = |tiling: Tiling| dispatch.spec.requantizes_in(tiling) && tiling.rows() >= rows;
            fits(dispatch.fitting(rows).0)
        })
    }

    /// Whether `rows` rows are multiplied on matrix units.
    pub fn on_matrix_units(&self, rows: u32) -> bool {
        let in_halves = |launch: &Launch| matches!(launch.fitting(rows).0, Tiling::Halves { .. });
        self.launches.iter().all(in_halves)
    }

    /// What is recorded for a step of `rows` rows: the number in [`Operands::batch`], or more.
    pub fn runs(&self, rows: u32) -> impl Iterator<Item = Run> {
        let launches = self.launches.iter().filter(move |_| rows > 0);
        launches.map(move |dispatch| {
            let (tiling, kernel) = dispatch.fitting(rows);
            let blocks = dispatch.blocks(tiling);
            let groups = [blocks[0] + blocks[1], rows.div_ceil(tiling.rows())];
            // Workgroups that share weights come one after the other.
            let groups = if tiling.rows_first() { [groups[1], groups[0]] } else { groups };
            Run { kernel, bindings: dispatch.bindings, groups }
        })
    }

    /// All kernels that it may need, and for how many rows.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (u32, KernelId)> {
        let tiled = self.launches.iter().flat_map(|launch| launch.kernels.iter());
        tiled.map(|(tiling, kernel)| (tiling.rows(), *kernel))
    }
}

impl Builder<'_> {
    /// That the operands fit each other.
    fn check(&self, matrices: [Matrix; 2], same_rows: bool) -> Result<()> {
        let name = self.name;
        let wrong =
            |expected: String, found: String| Err(Error::Tensor { name: name.to_string(), expected, found });
        let [first, second] = matrices.map(|matrix| matrix.weight.packing());
        if first.columns() != second.columns() || same_rows && first.rows() != second.rows() {
            return wrong(
                format!("two matrices like {} x {}", first.rows(), first.columns()),
                format!("a second of {} x {}", second.rows(), second.columns()),
            );
        }
        let quantized = self.operands.input.quantized();
        for (matrix, packing) in matrices.iter().zip([first, second]) {
            if let Some(quantized) = quantized
                && (packing.layout().integers().is_none() || packing.columns() > quantized.columns())
            {
                let (columns, room) = (packing.columns(), quantized.columns());
                return wrong(format!("integers of up to {room} columns"), format!("{columns} columns"));
            }
            if let Some(halves) = self.operands.input.halves()
                && packing.columns() > halves.columns()
            {
                let (columns, room) = (packing.columns(), halves.columns());
                return wrong(format!("halves of up to {room} columns"), format!("{columns} columns"));
            }
            if let Some(bias) = matrix.bias
                && bias.size() < 4 * packing.rows() as u64
            {
                return wrong(
                    format!("a bias of {} values", packing.rows()),
                    format!("{} bytes", bias.size()),
                );
            }
        }
        Ok(())
    }

    /// What the shapes of all launches of these matrices have in common; `width` is their number of outputs.
    fn shape(&self, matrices: [Matrix; 2], width: usize) -> Shape {
        let Operands { input, output, .. } = self.operands;
        let rounded = self.rounded();
        let [first, second] = matrices.map(|matrix| matrix.weight.packing());
        let (input_offset, input_stride, room) = match input {
            Input::Floats(view) => {
                let (offset, stride) = view.offset_and_stride();
                (offset, stride, view.room(first.columns() as u64))
            }
            Input::Integers(quantized) | Input::Normed(quantized, _) => {
                (0, quantized.stride(first.columns()), quantized.rows())
            }
            Input::Halves(halves) => (0, HalfRows::stride(first.columns()), halves.rows()),
            Input::Single(_) | Input::SingleNormed(..) => (0, 0, 1),
        };
        let epsilon = match input {
            Input::Normed(_, epsilon) | Input::SingleNormed(_, epsilon) => epsilon,
            _ => 0.0,
        };
        let squares = match (input.quantized(), input.halves()) {
            (Some(quantized), _) => quantized.squares(),
            (_, Some(halves)) => halves.squares(),
            _ => 0,
        };
        let [written_factors, written_squares] = rounded.map_or([0; 2], |to| to.factors_and_squares());
        let room = room.min(output.room(width as u64)).min(rounded.map_or(u64::MAX, |to| to.rows()));
        Shape {
            columns: first.columns() as u32,
            groups: first.groups() as u32,
            rest: [first, second].map(|packing| packing.rest_row() as u32),
            input_offset,
            input_stride,
            output_stride: output.stride,
            most_rows: u32::try_from(room).unwrap_or(u32::MAX),
            squares: squares as u32,
            factors: match input {
                Input::Halves(halves) => halves.factors() as u32,
                _ => input.quantized().map_or(0, |quantized| quantized.factors() as u32),
            },
            inverse_width: 1.0 / first.columns() as f32,
            epsilon,
            group_factors: input.halves().map_or(0, |halves| halves.group_factors() as u32),
            written_factors,
            written_squares,
            ..Shape::default()
        }
    }

    /// Where results go for the next layer.
    fn rounded(&self) -> Option<Rounded> {
        let rounded = self.next_norm.map_or(self.operands.rounded, |norm| Some(norm.rounded));
        rounded.filter(|to| to.fits(self.operands.input))
    }

    /// A dispatch for every piece of a matrix.
    fn plain(&self, kernels: &mut Kernels, matrix: Matrix) -> Result<Vec<Launch>> {
        let launches = matrix.weight.pieces().iter().map(|piece| {
            let output = [self.operands.output.offset + piece.rows.start as u32; 2];
            let shape = Shape { output, ..self.shape([matrix; 2], matrix.weight.packing().rows()) };
            let parts = [piece.rows.clone(), piece.rows.clone()];
            self.launch(kernels, [matrix; 2], [piece; 2], parts, None, shape)
        });
        launches.collect()
    }

    /// Binds a dispatch that computes the outputs of some rows of each matrix, which lie in these pieces.
    fn launch(
        &self,
        kernels: &mut Kernels,
        matrices: [Matrix; 2],
        pieces: [&Piece; 2],
        rows: [Range<usize>; 2],
        combination: Option<Combination>,
        shape: Shape,
    ) -> Result<Launch> {
        let Operands { input, output, batch, .. } = self.operands;
        let [first, second] =
            matrices.map(|matrix| (matrix.weight.packing().layout(), matrix.bias.is_some()));
        let second = combination.map(|combination| (second, combination));
        let normed = matches!(input, Input::Normed(..) | Input::Halves(_));
        let spec = LinearSpec {
            first,
            second,
            input: input.kind(matrices[0].weight.packing().columns()),
            normed,
            requantizes: false,
            known: None,
        };
        let whole =
            rows[0].len() == matrices[0].weight.packing().rows() && rows[0].len().is_multiple_of(GROUP);
        let can =
            whole && (spec.is_gated() || self.next_norm.is_some()) && self.linear.can_requantize(spec.input);
        let room = |to: &Rounded| can && to.columns() >= rows[0].len();
        let rounded = self.rounded().filter(room);
        let spec = LinearSpec { requantizes: rounded.is_some(), ..spec };
        let outputs = [0, 1].map(|i: usize| rows[i].len() as u32);
        let shape = Shape {
            outputs,
            first: [0, 1].map(|i: usize| (rows[i].start - pieces[i].rows.start) as u32),
            bias: [0, 1].map(|i: usize| rows[i].start as u32),
            ..shape
        };
        let spec = LinearSpec { known: spec.is_single().then_some(shape), ..spec };
        // Only joined matrices have workgroups of their own.
        let outputs = [outputs[0], if combination == Some(Combination::Joined) { outputs[1] } else { 0 }];
        let tiled = self.linear.of_layer(kernels, spec);
        if tiled.is_empty() {
            let (tensor, adapter) = (self.name.to_string(), kernels.facts.adapter.clone());
            return Err(Error::NoKernel {
                tensor,
                adapter,
                reason: LinearKernels::lack(&kernels.facts, spec),
            });
        }
        // Bindings that the kernel does not have are given something that is there.
        let bias = |i: usize| matrices[i].bias.map_or(pieces[i].low(), Buffer::whole);
        // A layer that does a part of the next norm has its weights where others have a second bias.
        let last = self.next_norm.map_or_else(|| bias(1), |norm| norm.weight.whole());
        let weights = [pieces[0].low(), pieces[0].rest(), pieces[1].low(), pieces[1].rest(), bias(0), last];
        let operands = [input.buffer().whole(), output.buffer.whole()];
        let rounded = rounded.as_ref().map(Rounded::buffer);
        let bindings = self.linear.bind(kernels, self.name, [&weights, &operands], rounded, (shape, batch));
        let multiprocessors = kernels.facts.multiprocessors.unwrap_or(MULTIPROCESSORS).max(1);
        Ok(Launch { outputs, spec, bindings, kernels: tiled, multiprocessors })
    }
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
