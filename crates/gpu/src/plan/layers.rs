//! How linear layers are planned: which matrices are one dispatch, whether their input are floats or integers, and
//! which op before them writes these already.

use std::collections::VecDeque;

use gleed_model::program::{self, Norm, Op, Program, Projection, View, Weight, WeightId};

use super::norms::{next_norm, norm_of};
use super::producer::Producer;
use super::{Command, Planner, Recorded, Resources};
use crate::Result;
use crate::kernels::Place;
use crate::kernels::attention;
use crate::kernels::norm::{Also, half_product_bytes};
use crate::launch::{KernelId, Kernels, Run};
use crate::linear::{
    Conversion, HalfRows, Input, Layout, Linear, Matrix, NextNorm, Operands, PackedWeight, Quantized,
    Rounded, RowsView, Tiling,
};
use crate::step::{Counts, Outlook};

/// Finds a matrix, or says that the weight is none.
type FindMatrix<'f, 'a> = &'f dyn Fn(WeightId) -> Result<&'a PackedWeight>;

/// The layers of an op that share their input, and how they have it.
#[derive(Debug, PartialEq)]
pub(crate) struct Layers {
    /// What makes integers or halves of the input, where the layers multiply those.
    conversion: Option<Conversion>,
    /// The layers for a single row of halves.
    single: Vec<Linear>,
    /// The op that writes the input and does that itself.
    producer: Option<Producer>,
    pub(super) layers: Vec<Linear>,
    /// What does the work of the layers and of the norm after them, for some numbers of rows.
    pub(super) with_norm: Option<Linear>,
}

impl Layers {
    pub fn layers(&self) -> &[Linear] {
        &self.layers
    }

    /// Those that may write for the next layer too.
    pub(super) fn writers(&self) -> &[Linear] {
        if self.single.is_empty() { &self.layers } else { &self.single }
    }

    /// What is recorded in a step.
    pub fn runs(&self, counts: Counts, recorded: Recorded) -> impl Iterator<Item = Run> {
        let rows = counts.rows as u32;
        let converted = self.producer.as_ref().is_some_and(|producer| producer.quantizes(counts));
        let conversion = self.conversion.filter(|_| !converted).and_then(|conversion| conversion.run(rows));
        let with_norm = self.with_norm.as_ref().filter(|layer| recorded.together(layer, counts));
        let single = rows == 1 && !self.single.is_empty();
        let layers = if single { &self.single[..] } else { &self.layers[..] };
        let layers = with_norm.map_or(layers, std::slice::from_ref);
        conversion.into_iter().chain(layers.iter().flat_map(move |layer| layer.runs(rows)))
    }

    /// All kernels that they may need, and for how many rows.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, KernelId)> {
        let conversion = self.conversion.iter().map(|conversion| (1, conversion.kernel));
        let layers = self.layers.iter().chain(&self.single).chain(&self.with_norm);
        conversion.chain(layers.flat_map(Linear::kernels))
    }
}

fn rows_view(place: Place) -> RowsView {
    RowsView { buffer: place.buffer, offset: place.offset as u32, stride: place.stride as u32 }
}

/// Whether a matrix has integers on the device.
pub(super) fn has_integers(program: &Program, id: WeightId) -> bool {
    matches!(Layout::of(program.weights[id].format).0, Layout::Integers(_))
}

/// Whether an op multiplies integers: any of its matrices has them, or both of a gated one. A gate and an up of
/// different kinds are both multiplied as floats.
pub(super) fn of_integers(program: &Program, op: &Op) -> bool {
    let matrices = op.matrices();
    let mut have = matrices.iter().map(|id| has_integers(program, *id));
    match op {
        Op::GatedLinear { .. } => have.all(|has| has),
        // Experts are multiplied as floats, whatever they have.
        Op::ExpertLinear { .. } => false,
        _ => have.any(|has| has),
    }
}

/// The most columns of the inputs that become halves: all that linear layers but those of experts have.
pub(crate) fn half_columns(program: &Program) -> usize {
    let is_linear = |op: &&Op| matches!(op, Op::Linear { .. } | Op::GatedLinear { .. });
    let ops = program.nodes.iter().map(|node| &node.op).filter(is_linear);
    ops.flat_map(Op::matrices).map(|id| program.weights[id].columns).max().unwrap_or(0)
}

/// The most columns of the inputs that become integers.
pub(crate) fn integer_columns(program: &Program) -> usize {
    let ops = program.nodes.iter().map(|node| &node.op).filter(|op| of_integers(program, op));
    ops.flat_map(Op::matrices).map(|id| program.weights[id].columns).max().unwrap_or(0)
}

impl<'a> Planner<'a> {
    /// out = the outputs of all parts, one after the other.
    pub(super) fn linear(
        &self,
        kernels: &mut Kernels,
        op: &Op,
        matrix: FindMatrix<'_, 'a>,
    ) -> Result<Command> {
        let Op::Linear { parts, input, out } = op else { unreachable!("called for linear ops") };
        let floats = rows_view(self.place(*input));
        self.layers(kernels, op, *input, |kernels, converted| {
            let mut matrices = self.matrices(parts);
            // Two at a time, which are one dispatch, where both have integers or both have floats.
            let pairs = std::iter::from_fn(|| {
                let first = matrices.pop_front()?;
                let kind = |(part, _): &(&Projection, usize)| {
                    self.resources.halves.is_none() && has_integers(self.program, part.weight)
                };
                Some((first, matrices.pop_front_if(|second| kind(second) == kind(&first))))
            });
            let mut offset = 0;
            let layers = pairs.map(|((first, rows), second)| {
                let takes = |input: &Input| match input {
                    Input::Integers(_) | Input::Normed(..) => has_integers(self.program, first.weight),
                    Input::Floats(_) | Input::Single(_) | Input::SingleNormed(..) | Input::Halves(_) => true,
                };
                let input = converted.filter(takes).unwrap_or(Input::Floats(floats));
                let outputs = rows + second.map_or(0, |(_, rows)| rows);
                let operands = self.operands(input, self.place(out.part(offset, outputs)));
                offset += outputs;
                let Weight { name, .. } = &self.program.weights[first.weight];
                let linear = &self.resources.linear;
                let first = self.with_bias(matrix(first.weight)?, first);
                match second {
                    Some((second, _)) => {
                        let second = self.with_bias(matrix(second.weight)?, second);
                        Linear::joined(kernels, linear, name, [first, second], operands)
                    }
                    None => Linear::new(kernels, linear, name, first, operands),
                }
            });
            layers.collect()
        })
    }

    /// The matrices of a linear op: of one part each, or of a stack of them, by its first part, and their outputs.
    fn matrices<'p>(&self, mut parts: &'p [Projection]) -> VecDeque<(&'p Projection, usize)> {
        let mut matrices = VecDeque::new();
        while let Some(first) = parts.first() {
            let (stack, rest) = parts.split_at(self.resources.weights.stacked(parts));
            matrices
                .push_back((first, stack.iter().map(|part| self.program.weights[part.weight].rows).sum()));
            parts = rest;
        }
        matrices
    }

    /// out = activation(gate) · up.
    pub(super) fn gated_linear(
        &self,
        kernels: &mut Kernels,
        op: &Op,
        matrix: FindMatrix<'_, 'a>,
    ) -> Result<Command> {
        let Op::GatedLinear { activation, gate, up, input, out } = op else {
            unreachable!("called for gated linear ops")
        };
        let floats = rows_view(self.place(*input));
        self.layers(kernels, op, *input, |kernels, integers| {
            let input = integers.unwrap_or(Input::Floats(floats));
            let by_others = self.rounded().map(|[_, by_others]| by_others);
            let rounded = by_others.filter(|to| self.next_multiplies(*out) && !to.is_input(&input));
            let operands = Operands { rounded, ..self.operands(input, self.place(*out)) };
            let both = [self.with_bias(matrix(gate.weight)?, gate), self.with_bias(matrix(up.weight)?, up)];
            let (linear, name) = (&self.resources.linear, &self.program.weights[gate.weight].name);
            Ok(vec![Linear::gated(kernels, linear, name, *activation, both, operands)?])
        })
    }

    /// The layers that `make` makes for an input of floats, or of integers too where matrices have them and the
    /// arithmetic is that of integers.
    fn layers(
        &self,
        kernels: &mut Kernels,
        op: &Op,
        input: View,
        make: impl Fn(&mut Kernels, Option<Input>) -> Result<Vec<Linear>>,
    ) -> Result<Command> {
        let linear = &self.resources.linear;
        let floats = rows_view(self.place(input));
        if let Some(halves) = self.resources.halves {
            return self.layers_of_halves(kernels, op, input, halves, make);
        }
        let (mut conversion, mut producer, mut integers) = (None, None, None);
        if let Some([by_norms, by_others]) =
            self.resources.quantized.filter(|_| of_integers(self.program, op))
        {
            let before = self.producer.as_ref().filter(|(view, _)| *view == input);
            producer = before.map(|(_, producer)| producer.clone());
            if let Some(epsilon) = self.epsilon_of(input) {
                integers = Some(Input::Normed(by_norms, epsilon));
            } else {
                // Gated layers may write integers themselves, where norms do not.
                let gated = matches!(op, Op::GatedLinear { .. });
                let quantized = match producer {
                    Some(Producer::Norm) => by_norms,
                    None if gated => by_norms,
                    _ => by_others,
                };
                let count = self.row_count;
                conversion =
                    Some(Conversion::to_integers(kernels, linear, floats, input.width, quantized, count));
                integers = Some(Input::Integers(quantized));
            }
        }
        let with_norm = self.with_norm(kernels, op, integers)?;
        let layers = make(kernels, integers)?;
        Ok(Command::Linear(Layers { conversion, producer, layers, with_norm, single: vec![] }))
    }

    /// The same of halves: layers for any number of rows, and those for one.
    fn layers_of_halves(
        &self,
        kernels: &mut Kernels,
        op: &Op,
        input: View,
        [by_norms, by_others]: [HalfRows; 2],
        make: impl Fn(&mut Kernels, Option<Input>) -> Result<Vec<Linear>>,
    ) -> Result<Command> {
        let before = self.producer.as_ref().filter(|(view, _)| *view == input);
        let mut producer = before.map(|(_, producer)| producer.clone());
        let epsilon = self.epsilon_of(input);
        let gated = matches!(op, Op::GatedLinear { .. });
        // Gated layers write where norms do not.
        let halves = if gated || epsilon.is_some() || matches!(producer, Some(Producer::Norm)) {
            producer.take_if(|producer| !matches!(producer, Producer::Norm));
            by_norms
        } else {
            by_others
        };
        let floats = rows_view(self.place(input));
        // Products that a norm has left are there for every reader.
        let (linear, count) = (&self.resources.linear, self.row_count);
        let conversion = epsilon
            .is_none()
            .then(|| Conversion::to_halves(kernels, linear, floats, input.width, halves, count));
        let one = epsilon.map_or(Input::Single(halves), |epsilon| Input::SingleNormed(halves, epsilon));
        let has_single = Tiling::has_single(input.width, kernels.facts.room());
        let single = if has_single { make(kernels, Some(one))? } else { vec![] };
        let with_norm = if has_single { self.with_norm(kernels, op, Some(one))? } else { None };
        let layers = make(kernels, Some(Input::Halves(halves)))?;
        Ok(Command::Linear(Layers { conversion, single, with_norm, producer, layers }))
    }

    /// The layer that does the work of a linear op and of the norm after it, where one can.
    fn with_norm(&self, kernels: &mut Kernels, op: &Op, input: Option<Input>) -> Result<Option<Linear>> {
        let Resources { linear, weights, .. } = self.resources;
        let (Op::Linear { parts, out, .. }, Some(input), Some([rounded, _])) = (op, input, self.rounded())
        else {
            return Ok(None);
        };
        let next = self.norm_after(self.index, *out);
        let (Some((x, norm)), [part]) = (next, &parts[..]) else { return Ok(None) };
        let (Some(weight), false) = (weights.matrix(part.weight), rounded.is_input(&input)) else {
            return Ok(None);
        };
        let operands = self.operands(input, self.place(x));
        let next_norm = NextNorm { weight: weights.vector(norm), rounded };
        let name = &self.program.weights[part.weight].name;
        Linear::with_next_norm(kernels, linear, name, self.with_bias(weight, part), operands, next_norm)
    }

    /// What the results of a node are added to and the weights of the norm after that, where the node can do both.
    pub(super) fn norm_after(&self, node: usize, result: View) -> Option<(View, WeightId)> {
        let does_without = |node: usize| self.norm_of_experts(node).is_some();
        let next = next_norm(self.program, (node, result), |op| self.rounds_all(op), does_without);
        next.filter(|_| self.writes_factors(node + 1))
    }

    /// Where norms write what linear layers read, and where others do.
    fn rounded(&self) -> Option<[Rounded; 2]> {
        let Resources { quantized, halves, .. } = *self.resources;
        let halves = halves.map(|both| both.map(Rounded::Halves));
        halves.or(quantized.map(|both| both.map(Rounded::Integers)))
    }

    /// Whether a linear op multiplies integers, or halves, as all of them do where some do.
    fn rounds(&self, op: &Op) -> bool {
        self.resources.halves.is_some() || of_integers(self.program, op)
    }

    /// Whether it does with all of its matrices.
    fn rounds_all(&self, op: &Op) -> bool {
        self.resources.halves.is_some() || op.matrices().iter().all(|id| has_integers(self.program, *id))
    }

    fn operands(&self, input: Input, output: Place) -> Operands {
        Operands { input, output: rows_view(output), rounded: None, batch: self.row_count }
    }

    /// Whether the next op multiplies a view as integers or halves.
    fn next_multiplies(&self, view: View) -> bool {
        self.next().is_some_and(|op| op.linear_input() == Some(view) && self.rounds(op))
    }

    /// Where attention writes its output as integers.
    pub(super) fn attention_integers(&self, op: &program::Attention, out: View) -> Option<Quantized> {
        let whole = self.program.caches[op.cache].value_dim.is_multiple_of(32) && op.is_plain();
        let [_, by_others] = self.resources.quantized?;
        (whole && self.next_makes_none(out)).then_some(by_others)
    }

    /// Where attention of a single row writes its output as halves.
    pub(super) fn attention_halves(&self, op: &program::Attention, out: View) -> Option<HalfRows> {
        let whole = self.program.caches[op.cache].value_dim.is_multiple_of(32);
        let [_, by_others] = self.resources.halves?;
        (whole && self.in_halves(op) && self.next_makes_none(out)).then_some(by_others)
    }

    /// By which of the step's outlooks attention is cut.
    pub(super) fn outlook(&self, op: &program::Attention) -> usize {
        let cache = self.resources.caches[op.cache];
        let own = Outlook::of_attention(op, cache.group, cache.shape);
        self.resources.outlooks.iter().position(|outlook| *outlook == own).unwrap_or(0)
    }

    /// Whether attention is on matrix units.
    pub(super) fn in_halves(&self, op: &program::Attention) -> bool {
        let cache = self.resources.caches[op.cache];
        let fits = attention::fits(self.resources.room, cache.shape);
        self.resources.halves.is_some() && op.in_halves(cache.shape, cache.kind) && fits
    }

    /// Where a norm of whole rows writes its output too.
    pub(super) fn norm_also(&self, norm: &Norm, out: View) -> Also {
        if let Some([by_norms, _]) = self.resources.halves {
            return match self.writes_factors(self.index) {
                true => Also::HalfProducts(by_norms),
                false if self.next_makes_none(out) => Also::Halves(by_norms),
                false => Also::Nothing,
            };
        }
        self.norm_integers(norm, out).map_or(Also::Nothing, Also::Integers)
    }

    /// Where a norm writes its output as integers.
    fn norm_integers(&self, norm: &Norm, out: View) -> Option<Quantized> {
        let [by_norms, _] = self.resources.quantized?;
        let writes = if norm.bias.is_none() {
            self.writes_factors(self.index)
        } else {
            // A layer norm keeps two numbers of each quad, and its sums.
            let fits = 2 * out.width.next_multiple_of(1024) + 2048 <= self.resources.workgroup_memory;
            fits && out.width.is_multiple_of(32) && self.next_makes_none(out)
        };
        writes.then_some(by_norms)
    }

    /// Whether the next op reads a view as integers that another op makes. The logits make their own, as they
    /// are computed some rows at a time.
    fn next_makes_none(&self, view: View) -> bool {
        let logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == self.program.logits);
        !self.next().is_some_and(logits) && self.next_multiplies(view)
    }

    /// Whether a node is an RMS norm that writes integers or halves and leaves the factors of rows to who reads them.
    pub(super) fn writes_factors(&self, node: usize) -> bool {
        let Resources { quantized, halves, workgroup_memory, .. } = *self.resources;
        let width = self.program.nodes[node].op.outputs().last().map_or(0, |out| out.width);
        let bytes = match halves {
            Some(_) => half_product_bytes(width),
            // It keeps three numbers of each quad, one of each group, and those of 32 lanes.
            None => 3 * width.next_multiple_of(1024) + width / 8 + 256,
        };
        let rounded = halves.is_some() || quantized.is_some();
        rounded && bytes <= workgroup_memory && self.program.leaves_factors(node, |op| self.rounds(op))
    }

    /// What the norm that wrote a view adds to the mean of squares, where it left the factors of rows.
    fn epsilon_of(&self, view: View) -> Option<f32> {
        let (writer, norm) = norm_of(self.program, self.index, view)?;
        self.writes_factors(writer).then_some(norm.epsilon)
    }

    pub(super) fn with_bias(&self, weight: &'a PackedWeight, part: &Projection) -> Matrix<'a> {
        Matrix { weight, bias: part.bias.map(|bias| self.resources.weights.vector(bias)) }
    }
}
