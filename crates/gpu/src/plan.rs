//! What is settled once, when a program is loaded: that it can be run here, and the dispatches of each node.

use gleed_model::program::{self, Op, Part, Program, View};
use gleed_model::verify::{Misfit, verify};

use crate::buffers::Activations;
use crate::cache::Layer;
use crate::kernels::attention::{self, Attention, Tiling};
use crate::kernels::embed::{Index, embed};
use crate::kernels::heads::{KeysValues, Queries, Rotation, heads};
use crate::kernels::norm::{Norm, norm};
use crate::kernels::plain_linear::linear;
use crate::kernels::rows::{add, gather};
use crate::kernels::{Dispatch, Kernels, List, activate};
use crate::weights::Weights;
use crate::{Error, Gpu, Result};

/// One node, ready to run.
#[derive(Debug)]
pub(crate) struct Planned {
    /// The rows that it sees; a gather already sees the wanted ones.
    pub list: List,
    pub dispatches: Vec<Dispatch>,
}

/// What the dispatches of a program bind.
#[derive(Clone, Copy)]
pub(crate) struct Resources<'a> {
    pub step: &'a wgpu::Buffer,
    pub weights: &'a Weights,
    pub activations: &'a Activations,
    pub caches: &'a [Layer],
    /// Partial results of attention.
    pub partials: &'a wgpu::Buffer,
    /// The second half of a gated linear op, `[row][the widest of them]`.
    pub beside: &'a wgpu::Buffer,
}

/// Checks everything that running a program relies on.
pub(crate) fn check(program: &Program) -> Result<()> {
    verify(program).map_err(|Misfit { node, kind, what }| Error::Program { node, kind, what })?;
    let refuse = |node: usize, what: &str| {
        let kind = program.nodes.get(node).map_or("logits", |node| node.op.kind());
        Err(Error::Program { node, kind, what: what.to_string() })
    };
    let gathers = |node: &program::Node| matches!(node.op, Op::Gather { .. });
    if let Some((second, _)) = program.nodes.iter().enumerate().filter(|(_, node)| gathers(node)).nth(1) {
        return refuse(second, "rows are gathered a second time");
    }
    // Logits are computed and read back some rows at a time, so nothing else may touch them.
    let last = program.nodes.len().saturating_sub(1);
    let writes_logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == program.logits);
    if !program.nodes.last().is_some_and(|node| writes_logits(&node.op)) {
        return refuse(last, "the last node must be the linear op that writes the logits");
    }
    if program.buffers[program.logits.buffer].width != program.logits.width {
        return refuse(program.nodes.len(), "the logits must have a buffer of their own");
    }
    let touches = |views: Vec<View>| views.iter().any(|view| view.buffer == program.logits.buffer);
    for (index, node) in program.nodes.iter().enumerate() {
        if touches(node.op.inputs()) || index < last && touches(node.op.outputs()) {
            return refuse(index, "only the last node may use the buffer of the logits");
        }
    }
    Ok(())
}

/// The views that the program gathers.
pub(crate) fn gathered(program: &Program) -> &[View] {
    let views = program.nodes.iter().find_map(|node| match &node.op {
        Op::Gather { views } => Some(&views[..]),
        _ => None,
    });
    views.unwrap_or(&[])
}

/// The most values that a row of any gated linear op has.
pub(crate) fn widest_gate(program: &Program) -> usize {
    let widths = program.nodes.iter().filter_map(|node| match &node.op {
        Op::GatedLinear { out, .. } => Some(out.width),
        _ => None,
    });
    widths.max().unwrap_or(0)
}

/// Neighbouring rows of a sequence that one workgroup of attention takes, in all of a program's layers, and
/// values of one row's partial result.
pub(crate) fn attention_tiles(gpu: &Gpu, program: &Program) -> (usize, usize) {
    let ops = program.nodes.iter().filter_map(|node| match node.op {
        Op::Attention { cache, heads, .. } => Some((program.caches[cache], heads)),
        _ => None,
    });
    ops.fold((usize::MAX, 0), |(rows, room), (cache, heads)| {
        let tiling = Tiling::new(gpu, heads / cache.heads, cache.key_dim);
        (rows.min(tiling.rows), room.max(heads * attention::partial_room(cache.value_dim)))
    })
}

/// Compiles and binds every node.
pub(crate) fn plan(
    kernels: &mut Kernels,
    program: &Program,
    resources: Resources,
    attention_rows: usize,
) -> Result<Vec<Planned>> {
    let mut list = List::All;
    let nodes = program.nodes.iter().map(|node| {
        if matches!(node.op, Op::Gather { .. }) {
            list = List::Wanted;
        }
        let planner = Planner { program, resources, list, attention_rows };
        Ok(Planned { list, dispatches: planner.node(kernels, &node.op)? })
    });
    nodes.collect()
}

struct Planner<'a> {
    program: &'a Program,
    resources: Resources<'a>,
    list: List,
    attention_rows: usize,
}

impl<'a> Planner<'a> {
    fn node(&self, kernels: &mut Kernels, op: &Op) -> Result<Vec<Dispatch>> {
        let Resources { step, weights, activations, caches, partials, beside } = self.resources;
        let list = self.list;
        let place = |view: &View| activations.place(*view, list);
        let one = |dispatch: Dispatch| vec![dispatch];
        match op {
            Op::Embed { table, out } => {
                embed(kernels, step, list, weights.matrix(*table), Index::Token, place(out))
            }
            Op::AddPositions { table, x } => {
                embed(kernels, step, list, weights.matrix(*table), Index::Position, place(x))
            }
            Op::Norm { norm: of, heads, input, out } => {
                norm(kernels, self.norm(of), *heads, place(input), None, place(out)).map(one)
            }
            Op::AddNorm { x, y, norm: of, out } => {
                norm(kernels, self.norm(of), 1, place(x), Some(place(y)), place(out)).map(one)
            }
            Op::Linear { parts, input, out } => {
                let mut dispatches = Vec::new();
                let mut offset = 0;
                for part in parts {
                    let rows = self.program.weights[part.weight].rows;
                    let out = place(&out.part(offset, rows));
                    dispatches.extend(linear(
                        kernels,
                        weights.matrix(part.weight),
                        self.bias(part),
                        place(input),
                        out,
                    )?);
                    offset += rows;
                }
                Ok(dispatches)
            }
            Op::GatedLinear { activation, gate, up, input, out } => {
                let (input, out) = (place(input), place(out));
                let second = crate::kernels::Place { buffer: beside, offset: 0, stride: out.width, ..out };
                let mut dispatches =
                    linear(kernels, weights.matrix(gate.weight), self.bias(gate), input, out)?;
                dispatches.extend(linear(kernels, weights.matrix(up.weight), self.bias(up), input, second)?);
                dispatches.push(activate::activate(kernels, *activation, out, Some(second), out)?);
                Ok(dispatches)
            }
            Op::Rope { rope, heads: count, x } => {
                let queries = Queries { heads: *count, place: place(x), norm: None };
                let rotation = Some(self.rotation(*rope));
                heads(kernels, step, list, Some(queries), None, rotation).map(Vec::from_iter)
            }
            Op::KvWrite { cache, key, value } => {
                let keys_values =
                    KeysValues { cache: &caches[*cache], key: place(key), value: place(value), norm: None };
                heads(kernels, step, list, None, Some(keys_values), None).map(Vec::from_iter)
            }
            Op::RopeKvWrite { cache, heads: count, rope, query_norm, key_norm, query, key, value } => {
                let norm = |norm: &Option<program::Norm>| norm.as_ref().map(|norm| self.norm(norm));
                let queries = Queries { heads: *count, place: place(query), norm: norm(query_norm) };
                let (cache, norm) = (&caches[*cache], norm(key_norm));
                let keys_values = KeysValues { cache, key: place(key), value: place(value), norm };
                let rotation = Some(self.rotation(*rope));
                heads(kernels, step, list, Some(queries), Some(keys_values), rotation).map(Vec::from_iter)
            }
            Op::Attention { cache, heads, scale, query, out } => {
                let (cache, query, out) = (&caches[*cache], place(query), place(out));
                let (heads, scale, rows) = (*heads, *scale, self.attention_rows);
                let op = Attention { cache, heads, scale, query, out, partials, rows };
                attention::attention(kernels, step, list, op)
            }
            Op::Activate { activation, gate, up, out } => {
                let up = up.as_ref().map(place);
                activate::activate(kernels, *activation, place(gate), up, place(out)).map(one)
            }
            Op::Add { x, y } => add(kernels, place(x), place(y)).map(one),
            Op::Gather { views } => {
                let moves = views.iter().map(|view| {
                    let from = activations.place(*view, List::All);
                    gather(kernels, step, from, activations.place(*view, List::Wanted).buffer)
                });
                moves.collect()
            }
        }
    }

    fn norm(&self, norm: &program::Norm) -> Norm<'a> {
        let weights = self.resources.weights;
        let bias = norm.bias.map(|bias| weights.vector(bias));
        Norm { weight: weights.vector(norm.weight), bias, epsilon: norm.epsilon }
    }

    fn bias(&self, part: &Part) -> Option<&'a wgpu::Buffer> {
        part.bias.map(|bias| self.resources.weights.vector(bias))
    }

    fn rotation(&self, rope: usize) -> Rotation {
        let pairs = |rope: &gleed_model::rope::Rope| rope.frequencies.len();
        let angles = self.program.ropes[..rope].iter().map(|rope| 2 * pairs(rope)).sum();
        let rope = &self.program.ropes[rope];
        Rotation { pairing: rope.pairing, pairs: pairs(rope), angles }
    }
}
