//! What is settled once, when a program is loaded: that it can be run here, the buffers that it needs, and the dispatches of
//! each node. All of it is plain data, which is made without a device.

mod check;
mod choosers;
mod experts;
mod layers;
mod low_rank;
mod names;
mod norms;
mod planned;
mod producer;
mod resources;
mod sizes;

use gleed_model::program::{self, Op, Program, View, WeightId};

use crate::kernels::attention::{self, Attention, index};
use crate::kernels::embed::{Index, embed};
use crate::kernels::heads::{KeysValues, Queries, Rotation, heads};
use crate::kernels::norm::{Also, Norm, norm};
use crate::kernels::rows::{add, center, gather, map, pool};
use crate::kernels::{Dispatch, List, Place, activate, adapters, experts as routing, state, streams};
use crate::launch::{Buffer, Kernels};
use crate::linear::PackedWeight;
use crate::{Error, Result};
pub(crate) use check::{attention_tiles, check, gathered, head, logits_inputs};
pub(crate) use choosers::Choosers;
use experts::{Sorted, sorted_after};
pub(crate) use layers::{half_columns, integer_columns};
pub use names::{WeightKernels, kernels_of};
pub(crate) use planned::{Command, Planned, Recorded, Within};
use producer::Producer;
pub(crate) use resources::Resources;
pub use sizes::Memory;
pub(crate) use sizes::{Sizes, fits};

/// The dispatches of every node.
pub(crate) fn plan(kernels: &mut Kernels, program: &Program, resources: &Resources) -> Result<Vec<Planned>> {
    let mut list = List::All;
    let head = head(program);
    let (mut producer, mut sorted) = (None, None);
    // What does the work of this node, and of the next.
    let mut within = [None, None];
    let nodes = program.nodes.iter().enumerate().map(|(index, node)| {
        if node.op.gathers() {
            list = List::Wanted;
        }
        let counts = &resources.row_counts;
        let row_count = if index >= head { counts.logits } else { counts.lists[list as usize] };
        let before = producer.take();
        let planner = Planner { program, index, resources, list, row_count, producer: before, sorted };
        let misuse = |weight: &str| Error::Program {
            node: index,
            kind: node.op.kind(),
            what: format!("{weight} is a vector of another node"),
        };
        let commands = planner.node(kernels, &node.op, misuse)?;
        producer = match (&node.op, &commands[..]) {
            (Op::GatedLinear { out, .. }, [Command::Linear(layers)]) => {
                layers.writers().first().map(|layer| (*out, Producer::Layer(layer.clone())))
            }
            (Op::Norm { norm, heads: 1, out, .. } | Op::AddNorm { norm, out, .. }, _) => {
                match planner.norm_also(norm, *out) {
                    Also::Integers(_) if norm.bias.is_none() => None,
                    Also::Integers(_) | Also::Halves(_) | Also::HalfProducts(_) => {
                        Some((*out, Producer::Norm))
                    }
                    Also::Nothing => None,
                }
            }
            (Op::Attention { attention, out, .. }, _)
                if planner.attention_integers(attention, *out).is_some() =>
            {
                Some((*out, Producer::Attention))
            }
            (Op::Attention { attention, out, .. }, _)
                if planner.attention_halves(attention, *out).is_some() =>
            {
                Some((*out, Producer::SingleAttention(planner.outlook(attention))))
            }
            _ => None,
        };
        sorted = sorted_after(program, &node.op, &commands, sorted);
        let next = match &commands[..] {
            [Command::Linear(layers)] => [layers.with_norm.clone().map(Within::Layer), None],
            [Command::Experts(experts)] => experts.done_too().map(|rows| rows.map(Within::Experts)),
            _ => [None, None],
        };
        let [own, after] = std::mem::take(&mut within);
        let [first, second] = next;
        within = [first.or(after), second];
        // Experts of a single row choose for themselves.
        let chosen_later = planner.chosen_later().then_some(Within::Experts(1));
        Ok(Planned { list, commands, within: own.or(chosen_later) })
    });
    nodes.collect()
}

struct Planner<'a> {
    program: &'a Program,
    index: usize,
    resources: &'a Resources,
    list: List,
    /// How many rows the node's linear layers have.
    row_count: Buffer,
    /// What is before this node, and what it writes, perhaps as integers too.
    producer: Option<(View, Producer)>,
    /// What the tiles of experts hold before it.
    sorted: Option<Sorted>,
}

impl<'a> Planner<'a> {
    /// The commands of a node; `misuse` is the error for a weight that is not a matrix.
    fn node(&self, kernels: &mut Kernels, op: &Op, misuse: impl Fn(&str) -> Error) -> Result<Vec<Command>> {
        let matrix = |id: WeightId| {
            let weight = self.resources.weights.matrix(id);
            weight.ok_or_else(|| misuse(&self.program.weights[id].name))
        };
        match op {
            Op::Linear { .. } => Ok(vec![self.linear(kernels, op, &matrix)?]),
            Op::GatedLinear { .. } => Ok(vec![self.gated_linear(kernels, op, &matrix)?]),
            Op::Embed { table, .. } | Op::AddPositions { table, .. } | Op::AddVector { table, .. } => {
                let dispatches = self.embed(kernels, op, matrix(*table)?);
                Ok(dispatches.into_iter().map(Command::Dispatch).collect())
            }
            Op::ExpertLinear { .. } => self.experts(kernels, op, matrix),
            op => Ok(self.dispatches(kernels, op).into_iter().map(Command::Dispatch).collect()),
        }
    }

    fn embed(&self, kernels: &mut Kernels, op: &Op, table: &PackedWeight) -> Vec<Dispatch> {
        let Resources { step, activations, chosen, .. } = self.resources;
        let (index, view) = match op {
            Op::Embed { out, .. } => (Index::Token, *out),
            Op::AddPositions { x, .. } => (Index::Position, *x),
            Op::AddVector { x, .. } => (Index::Nothing, *x),
            _ => return Vec::new(),
        };
        embed(kernels, *step, self.list, table, *chosen, index, activations.place(view, self.list))
    }

    /// The next op.
    fn next(&self) -> Option<&'a Op> {
        self.program.nodes.get(self.index + 1).map(|node| &node.op)
    }

    /// Where a view is, in the rows that the node sees.
    fn place(&self, view: View) -> Place {
        self.resources.activations.place(view, self.list)
    }

    /// The dispatches of all ops that have no matrix.
    fn dispatches(&self, kernels: &mut Kernels, op: &Op) -> Vec<Dispatch> {
        let Resources { ref activations, ref caches, ref states, ref weights, .. } = *self.resources;
        let Resources { step, partials, .. } = *self.resources;
        let list = self.list;
        let place = |view: &View| self.place(*view);
        let one = |dispatch: Dispatch| vec![dispatch];
        match op {
            Op::Norm { norm: of, heads, input, out } => {
                let also = if *heads == 1 { self.norm_also(of, *out) } else { Also::Nothing };
                one(norm(kernels, self.norm(of), *heads, place(input), None, place(out), also))
            }
            Op::AddNorm { x, y, norm: of, out } => {
                let also = self.norm_also(of, *out);
                one(norm(kernels, self.norm(of), 1, place(x), Some(place(y)), place(out), also))
            }
            Op::Center { heads, input, out } => one(center(kernels, *heads, place(input), place(out))),
            // The step's upload has brought it.
            Op::Input { .. } => vec![],
            Op::Linear { .. }
            | Op::GatedLinear { .. }
            | Op::ExpertLinear { .. }
            | Op::Embed { .. }
            | Op::AddPositions { .. }
            | Op::AddVector { .. } => unreachable!("ops with matrices are not planned here"),
            Op::Unzip { heads, input, outs } => {
                let outs: Vec<Place> = outs.iter().map(place).collect();
                state::unzip(kernels, *heads, place(input), &outs)
            }
            Op::Zip { heads, first, second, out } => {
                one(state::zip(kernels, *heads, [first, second].map(place), place(out)))
            }
            Op::UnitNorm { heads, epsilon, like, x } => {
                one(state::unit_norm(kernels, *heads, *epsilon, like.as_ref().map(place), place(x)))
            }
            Op::ScaleColumns { weight, input, out } => {
                one(streams::scale_columns(kernels, weights.vector(*weight), place(input), place(out)))
            }
            Op::Blend { shares, x, y, out } => {
                let places = [x, y, out].map(place);
                one(streams::blend(kernels, weights.vector(*shares), places))
            }
            Op::Dot { heads, x, y, out } => one(streams::dot(kernels, *heads, [x, y, out].map(place))),
            Op::Sparsify { spread, x } => one(streams::sparsify(kernels, *spread, place(x))),
            Op::MixStreams { coefficients, input, out } => {
                one(streams::mix(kernels, [coefficients, input, out].map(place)))
            }
            Op::CorrectStreams { coefficients, truth, input, out } => {
                one(streams::correct(kernels, [coefficients, truth, input, out].map(place)))
            }
            Op::Shift { state, input, out } => {
                one(state::shift(kernels, step, states[*state], [input, out].map(place)))
            }
            Op::Convolve { convolution: op, input, out } => {
                let (layer, places) = (states[op.state], [input, out].map(place));
                one(state::convolve(kernels, step, weights, layer, *op, places))
            }
            Op::Scan { scan: op, x, dt, b, c, out } => {
                let (layer, places) = (states[op.state], [x, dt, b, c, out].map(place));
                let decays = self.program.weights[op.decay].size();
                one(state::scan(kernels, step, weights, layer, (*op, decays), places))
            }
            Op::Keep { decay, x } => {
                let heads = self.program.weights[decay.decay].size();
                one(state::keep(kernels, weights, *decay, heads, place(x)))
            }
            Op::DeltaRule { rule: op, query, key, value, alpha, beta, out } => {
                let (layer, places) = (states[op.state], [query, key, value, alpha, beta, out].map(place));
                one(state::delta_rule(kernels, step, weights, layer, *op, places))
            }
            Op::Wkv { wkv: op, query, kept, key, value, asked, removed, out } => {
                let places = [query, kept, key, value, asked, removed, out].map(place);
                one(state::wkv(kernels, step, states[op.state], *op, places))
            }
            Op::Rope { rope, heads: count, x } => {
                let queries = Queries { heads: *count, place: place(x), norm: None };
                let rotation = Some(self.rotation(*rope));
                heads(kernels, step, list, Some(queries), None, rotation).into_iter().collect()
            }
            Op::KvWrite { cache, key, value } => {
                let keys_values =
                    KeysValues { cache: caches[*cache], key: place(key), value: place(value), norm: None };
                heads(kernels, step, list, None, Some(keys_values), None).into_iter().collect()
            }
            Op::RopeKvWrite {
                cache,
                heads: count,
                query_rope,
                key_rope,
                query_norm,
                key_norm,
                query,
                key,
                value,
            } => {
                let norm = |norm: &Option<program::Norm>| norm.as_ref().map(|norm| self.norm(norm));
                let queries = Queries { heads: *count, place: place(query), norm: norm(query_norm) };
                let (cache, norm) = (caches[*cache], norm(key_norm));
                let keys_values = KeysValues { cache, key: place(key), value: place(value), norm };
                let key_angles = self.rotation(*key_rope).key_angles;
                let rotation = Some(Rotation { key_angles, ..self.rotation(*query_rope) });
                heads(kernels, step, list, Some(queries), Some(keys_values), rotation).into_iter().collect()
            }
            Op::Attention { attention: op, query, out } => {
                let (integers, written) =
                    (self.attention_integers(op, *out), self.attention_halves(op, *out));
                let (cache, query, out) = (caches[op.cache], place(query), place(out));
                let sinks = op.sinks.map(|sinks| self.resources.weights.vector(sinks));
                let chosen = op.chosen.map(|chosen| self.place(chosen));
                let (op, rows) = (*op, self.resources.attention_rows);
                let (halves, outlook) = (self.in_halves(&op), self.outlook(&op));
                let op = Attention {
                    cache,
                    op,
                    outlook,
                    sinks,
                    chosen,
                    query,
                    out,
                    partials,
                    rows,
                    integers,
                    written,
                    halves,
                };
                attention::attention(kernels, step, list, op)
            }
            Op::Choose { indexer, query, weights, out } => {
                let op = Attention {
                    cache: caches[indexer.cache],
                    op: program::Attention::over_all(indexer.cache, indexer.heads, 1.0),
                    outlook: 0,
                    sinks: None,
                    chosen: None,
                    query: place(query),
                    out: place(out),
                    partials,
                    rows: 1,
                    integers: None,
                    written: None,
                    halves: false,
                };
                let scores = (self.program.context, self.resources.index_scores);
                one(index::choose(kernels, step, list, op, place(weights), scores))
            }
            Op::Activate { activation, gate, up, out } => {
                let up = up.as_ref().map(place);
                one(activate::activate(kernels, *activation, place(gate), up, place(out)))
            }
            Op::Add { x, y } => one(add(kernels, place(x), place(y))),
            Op::Map { map: function, x } => one(map(kernels, *function, place(x))),
            Op::Gate { activation, gate, x } => {
                one(routing::gate(kernels, *activation, place(gate), place(x)))
            }
            Op::Route { .. } => {
                self.choosing(op).map(|choosing| routing::route(kernels, choosing)).into_iter().collect()
            }
            Op::Weigh { choice, input, out } => {
                one(routing::weigh(kernels, place(choice), place(input), place(out)))
            }
            Op::Combine { choice, weighted, input, out } => {
                one(routing::combine(kernels, place(choice), *weighted, place(input), place(out)))
            }
            Op::AdapterScales { out } => {
                one(adapters::scales(kernels, step, list, self.resources.first_scale, place(out)))
            }
            Op::AddLowRank { parts, choice, scales, input, x } => {
                self.add_low_rank(kernels, parts, *choice, [*scales, *input, *x])
            }
            Op::Gather { views } => {
                let moves = views.iter().map(|view| {
                    let from = activations.place(*view, List::All);
                    gather(kernels, step, from, activations.place(*view, List::Wanted).buffer)
                });
                moves.collect()
            }
            Op::Pool { x } => {
                let (from, to) = (activations.place(*x, List::All), activations.place(*x, List::Wanted));
                one(pool(kernels, step, from, to.buffer))
            }
        }
    }

    fn norm(&self, norm: &program::Norm) -> Norm {
        let weights = &self.resources.weights;
        let bias = norm.bias.map(|bias| weights.vector(bias));
        let of_heads = self.program.weights[norm.weight].rows > 1;
        Norm { weight: weights.vector(norm.weight), bias, epsilon: norm.epsilon, of_heads }
    }

    fn rotation(&self, rope: usize) -> Rotation {
        let pairs = |rope: &gleed_model::rope::Rope| rope.frequencies.len();
        let before: usize = self.program.ropes[..rope].iter().map(|rope| 2 * pairs(rope)).sum();
        let angles = self.resources.first_angle + before;
        let rope = &self.program.ropes[rope];
        Rotation { pairing: rope.pairing, pairs: pairs(rope), angles, key_angles: angles }
    }
}

#[cfg(test)]
mod tests;
