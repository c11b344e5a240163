//! How linear layers are planned: which matrices are one dispatch, whether their input are floats or integers, and
//! which op before them writes these already.

use std::collections::VecDeque;

use gleed_model::program::{Op, Part, Program, View, Weight, WeightId};

use super::{Command, Planner};
use crate::kernels::Place;
use crate::linear::{Input, Layout, Linear, Matrix, Operands, PackedWeight, Quantize, Quantized, RowsView};
use crate::step::{Counts, Items};
use crate::{Gpu, Result};

/// Finds a matrix, or says that the weight is none.
type FindMatrix<'f, 'a> = &'f dyn Fn(WeightId) -> Result<&'a PackedWeight>;

/// The layers of an op that share their input, and how they have it.
#[derive(Debug)]
pub(crate) struct Layers {
    /// What makes integers of the input, where the layers multiply integers.
    quantize: Option<Quantize>,
    /// The op that writes the input and does that itself.
    producer: Option<Producer>,
    pub(super) layers: Vec<Linear>,
}

/// An op that also writes its output as integers.
#[derive(Debug, Clone)]
pub(super) enum Producer {
    /// For some numbers of rows.
    Layer(Linear),
    /// Always.
    Norm,
    /// When all rows are single ones that look not far back, or have merged spans.
    Attention,
}

impl Producer {
    fn quantizes(&self, counts: Counts) -> bool {
        match self {
            Producer::Layer(layer) => layer.requantizes(counts.rows as u32),
            Producer::Norm => true,
            Producer::Attention => counts.items[Items::Near as usize] + counts.merges == counts.rows,
        }
    }
}

impl Layers {
    pub fn record(&self, pass: &mut wgpu::ComputePass, counts: Counts) {
        let rows = counts.rows as u32;
        if !self.producer.as_ref().is_some_and(|producer| producer.quantizes(counts)) {
            self.quantize.iter().for_each(|quantize| quantize.record(pass, rows));
        }
        self.layers.iter().for_each(|layer| layer.record(pass, rows));
    }
}

fn rows_view(place: Place) -> RowsView {
    RowsView { buffer: place.buffer, offset: place.offset as u32, stride: place.stride as u32 }
}

/// Whether a matrix has integers on the device.
fn has_integers(program: &Program, id: WeightId) -> bool {
    matches!(Layout::of(program.weights[id].format).0, Layout::Integers(_))
}

/// Whether any matrix of an op does.
fn of_integers(program: &Program, op: &Op) -> bool {
    op.matrices().iter().any(|id| has_integers(program, *id))
}

/// The most columns of the inputs that become integers.
pub(crate) fn integer_columns(program: &Program) -> usize {
    let ops = program.nodes.iter().map(|node| &node.op).filter(|op| of_integers(program, op));
    ops.flat_map(Op::matrices).map(|id| program.weights[id].columns).max().unwrap_or(0)
}

impl<'a> Planner<'a> {
    /// out = the outputs of all parts, one after the other.
    pub(super) fn linear(&self, gpu: &Gpu, op: &Op, matrix: FindMatrix<'_, 'a>) -> Result<Command> {
        let Op::Linear { parts, input, out } = op else { unreachable!("called for linear ops") };
        let floats = rows_view(self.place(*input));
        self.layers(gpu, op, *input, |integers| {
            let mut matrices = self.matrices(parts);
            // Two at a time, which are one dispatch, where both have integers or both have floats.
            let pairs = std::iter::from_fn(|| {
                let first = matrices.pop_front()?;
                let kind = |(part, _): &(&Part, usize)| has_integers(self.program, part.weight);
                Some((first, matrices.pop_front_if(|second| kind(second) == kind(&first))))
            });
            let mut offset = 0;
            let layers = pairs.map(|((first, rows), second)| {
                let integers = integers.filter(|_| has_integers(self.program, first.weight));
                let input = integers.map_or(Input::Floats(floats), Input::Integers);
                let outputs = rows + second.map_or(0, |(_, rows)| rows);
                let operands = self.operands(input, self.place(out.part(offset, outputs)));
                offset += outputs;
                let Weight { name, .. } = &self.program.weights[first.weight];
                let linear = self.resources.linear;
                let first = self.with_bias(matrix(first.weight)?, first);
                match second {
                    Some((second, _)) => {
                        let second = self.with_bias(matrix(second.weight)?, second);
                        Linear::joined(gpu, linear, name, [first, second], operands)
                    }
                    None => Linear::new(gpu, linear, name, first, operands),
                }
            });
            layers.collect()
        })
    }

    /// The matrices of a linear op: of one part each, or of a stack of them, by its first part, and their outputs.
    fn matrices<'p>(&self, mut parts: &'p [Part]) -> VecDeque<(&'p Part, usize)> {
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
    pub(super) fn gated_linear(&self, gpu: &Gpu, op: &Op, matrix: FindMatrix<'_, 'a>) -> Result<Command> {
        let Op::GatedLinear { activation, gate, up, input, out } = op else {
            unreachable!("called for gated linear ops")
        };
        let floats = rows_view(self.place(*input));
        self.layers(gpu, op, *input, |integers| {
            // A gate and an up of different kinds are both multiplied as floats.
            let both_have = [gate, up].iter().all(|part| has_integers(self.program, part.weight));
            let input = integers.filter(|_| both_have).map_or(Input::Floats(floats), Input::Integers);
            let by_layers = self.resources.quantized.map(|[by_layers, _]| by_layers);
            let integers = by_layers.filter(|_| self.next_multiplies(*out));
            let operands = Operands { integers, ..self.operands(input, self.place(*out)) };
            let both = [self.with_bias(matrix(gate.weight)?, gate), self.with_bias(matrix(up.weight)?, up)];
            let (linear, name) = (self.resources.linear, &self.program.weights[gate.weight].name);
            Ok(vec![Linear::gated(gpu, linear, name, *activation, both, operands)?])
        })
    }

    /// The layers that `make` makes for an input of floats, or of integers too where matrices have them and the
    /// arithmetic is that of integers.
    fn layers(
        &self,
        gpu: &Gpu,
        op: &Op,
        input: View,
        make: impl Fn(Option<&'a Quantized>) -> Result<Vec<Linear>>,
    ) -> Result<Command> {
        let linear = self.resources.linear;
        let floats = rows_view(self.place(input));
        let integers = self.resources.quantized.filter(|_| of_integers(self.program, op));
        let Some([by_layers, by_others]) = integers else {
            let layers = make(None)?;
            return Ok(Command::Linear(Layers { quantize: None, producer: None, layers }));
        };
        let producer = self.producer.as_ref().filter(|(view, _)| *view == input);
        let producer = producer.map(|(_, producer)| producer.clone());
        let quantized = if let Some(Producer::Layer(_)) = producer { by_layers } else { by_others };
        let quantize = Quantize::new(gpu, linear, floats, input.width, quantized, self.row_count)?;
        Ok(Command::Linear(Layers { quantize: Some(quantize), producer, layers: make(Some(quantized))? }))
    }

    fn operands(&self, input: Input<'a>, output: Place<'a>) -> Operands<'a> {
        Operands { input, output: rows_view(output), integers: None, batch: self.row_count }
    }

    /// Whether the next op multiplies a view with matrices of integers.
    fn next_multiplies(&self, view: View) -> bool {
        let reads = |op: &&Op| match op {
            Op::Linear { input, .. } | Op::GatedLinear { input, .. } => *input == view,
            _ => false,
        };
        self.next.filter(reads).is_some_and(|op| of_integers(self.program, op))
    }

    /// Where attention writes its output as integers.
    pub(super) fn attention_integers(&self, cache: usize, out: View) -> Option<&'a Quantized> {
        let whole = self.program.caches[cache].value_dim.is_multiple_of(32);
        self.integers_of(out).filter(|_| whole)
    }

    /// Where a norm or attention writes a view as integers, because the next op reads it so. The logits make
    /// their own, as they are computed some rows at a time.
    pub(super) fn integers_of(&self, view: View) -> Option<&'a Quantized> {
        let logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == self.program.logits);
        let [_, by_others] = self.resources.quantized?;
        let whole = view.width.is_multiple_of(32) && !self.next.is_some_and(logits);
        // A norm keeps two numbers of each quad, and its sums.
        let fits = 2 * view.width + 2048 <= self.resources.workgroup_memory;
        (whole && fits && self.next_multiplies(view)).then_some(by_others)
    }

    fn with_bias(&self, weight: &'a PackedWeight, part: &Part) -> Matrix<'a> {
        Matrix { weight, bias: part.bias.map(|bias| self.resources.weights.vector(bias)) }
    }
}
