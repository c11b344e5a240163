//! What is settled once, when a program is loaded: that it can be run here, and the dispatches of each node.

mod check;
mod experts;
mod layers;
mod low_rank;
mod names;
mod norms;
mod planned;
mod producer;

use gleed_model::program::{self, Op, Program, View, WeightId};

use crate::buffers::Activations;
use crate::cache::LayerCache;
use crate::kernels::attention::{self, Attention, index};
use crate::kernels::embed::{Index, embed};
use crate::kernels::experts::tiles::ExpertRows;
use crate::kernels::heads::{KeysValues, Queries, Rotation, heads};
use crate::kernels::norm::{Also, Norm, norm};
use crate::kernels::rows::{add, center, gather, map, pool};
use crate::kernels::{
    Dispatch, Kernels, List, Place, activate, adapters, experts as routing, state, streams,
};
use crate::linear::{HalfRows, LinearKernels, PackedWeight, Quantized};
use crate::state::LayerState;
use crate::step::Outlook;
use crate::weights::Weights;
use crate::{Error, Result};
pub(crate) use check::{attention_tiles, check, gathered, head, logits_inputs};
use experts::{Sorted, sorted_after};
pub(crate) use layers::{half_columns, integer_columns};
pub use names::{WeightKernels, kernels_of};
pub(crate) use planned::{Command, Planned, Recorded, Within};
use producer::Producer;

/// How many rows linear layers have: one uniform buffer for each list, and one for the logits.
#[derive(Debug)]
pub(crate) struct RowCounts {
    pub lists: [wgpu::Buffer; 2],
    pub logits: wgpu::Buffer,
}

/// What the dispatches of a program bind.
#[derive(Clone, Copy)]
pub(crate) struct Resources<'a> {
    pub step: &'a wgpu::Buffer,
    /// By which the step cuts attention.
    pub outlooks: &'a [Outlook],
    /// Where a row's scales of adapters begin after its fixed words, and where its angles do.
    pub first_scale: usize,
    pub first_angle: usize,
    pub weights: &'a Weights,
    pub activations: &'a Activations,
    pub caches: &'a [LayerCache],
    pub states: &'a [LayerState],
    /// Partial results of attention.
    pub partials: &'a wgpu::Buffer,
    /// What indexers score.
    pub index_scores: &'a wgpu::Buffer,
    pub linear: &'a LinearKernels,
    /// Where activations become integers, in arithmetic of integers: those that norms write, and others.
    pub quantized: Option<&'a [Quantized; 2]>,
    /// Where they become halves, in arithmetic of halves: the same.
    pub halves: Option<&'a [HalfRows; 2]>,
    /// Where rows are as experts read them, in arithmetic of halves.
    pub expert_rows: Option<&'a ExpertRows>,
    /// Bytes of memory that a workgroup may have.
    pub workgroup_memory: usize,
    pub row_counts: &'a RowCounts,
    /// The tokens that the device chose last.
    pub chosen: &'a wgpu::Buffer,
}

/// Compiles and binds every node.
pub(crate) fn plan(
    kernels: &mut Kernels,
    program: &Program,
    resources: Resources,
    attention_rows: usize,
) -> Result<Vec<Planned>> {
    let mut list = List::All;
    let head = head(program);
    let (mut producer, mut within, mut sorted) = (None, None, None);
    let nodes = program.nodes.iter().enumerate().map(|(index, node)| {
        if node.op.gathers() {
            list = List::Wanted;
        }
        let counts = resources.row_counts;
        let row_count = if index >= head { &counts.logits } else { &counts.lists[list as usize] };
        let before = producer.take();
        let planner =
            Planner { program, index, resources, list, row_count, attention_rows, producer: before, sorted };
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
            [Command::Linear(layers)] => layers.with_norm.clone().map(Within::Layer),
            [Command::Experts(experts)] => experts.activated_rows().map(Within::Experts),
            _ => None,
        };
        Ok(Planned { list, commands, within: std::mem::replace(&mut within, next) })
    });
    nodes.collect()
}

struct Planner<'a> {
    program: &'a Program,
    index: usize,
    resources: Resources<'a>,
    list: List,
    /// How many rows the node's linear layers have.
    row_count: &'a wgpu::Buffer,
    attention_rows: usize,
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
            Op::Linear { .. } => Ok(vec![self.linear(&kernels.gpu, op, &matrix)?]),
            Op::GatedLinear { .. } => Ok(vec![self.gated_linear(&kernels.gpu, op, &matrix)?]),
            Op::Embed { table, .. } | Op::AddPositions { table, .. } | Op::AddVector { table, .. } => {
                let dispatches = self.embed(kernels, op, matrix(*table)?)?;
                Ok(dispatches.into_iter().map(Command::Dispatch).collect())
            }
            Op::ExpertLinear { .. } => self.experts(kernels, op, matrix),
            op => Ok(self.dispatches(kernels, op)?.into_iter().map(Command::Dispatch).collect()),
        }
    }

    fn embed(&self, kernels: &mut Kernels, op: &Op, table: &PackedWeight) -> Result<Vec<Dispatch>> {
        let Resources { step, activations, chosen, .. } = self.resources;
        let (index, view) = match op {
            Op::Embed { out, .. } => (Index::Token, *out),
            Op::AddPositions { x, .. } => (Index::Position, *x),
            Op::AddVector { x, .. } => (Index::Nothing, *x),
            _ => return Ok(Vec::new()),
        };
        embed(kernels, step, self.list, table, chosen, index, activations.place(view, self.list))
    }

    /// The next op.
    fn next(&self) -> Option<&'a Op> {
        self.program.nodes.get(self.index + 1).map(|node| &node.op)
    }

    /// Where a view is, in the rows that the node sees.
    fn place(&self, view: View) -> Place<'a> {
        self.resources.activations.place(view, self.list)
    }

    /// The dispatches of all ops that have no matrix.
    fn dispatches(&self, kernels: &mut Kernels, op: &Op) -> Result<Vec<Dispatch>> {
        let Resources { step, activations, caches, states, partials, weights, .. } = self.resources;
        let list = self.list;
        let place = |view: &View| self.place(*view);
        let one = |dispatch: Dispatch| vec![dispatch];
        match op {
            Op::Norm { norm: of, heads, input, out } => {
                let also = if *heads == 1 { self.norm_also(of, *out) } else { Also::Nothing };
                norm(kernels, self.norm(of), *heads, place(input), None, place(out), also).map(one)
            }
            Op::AddNorm { x, y, norm: of, out } => {
                let also = self.norm_also(of, *out);
                norm(kernels, self.norm(of), 1, place(x), Some(place(y)), place(out), also).map(one)
            }
            Op::Center { heads, input, out } => center(kernels, *heads, place(input), place(out)).map(one),
            // The step's upload has brought it.
            Op::Input { .. } => Ok(vec![]),
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
                state::zip(kernels, *heads, [first, second].map(place), place(out)).map(one)
            }
            Op::UnitNorm { heads, epsilon, like, x } => {
                state::unit_norm(kernels, *heads, *epsilon, like.as_ref().map(place), place(x)).map(one)
            }
            Op::ScaleColumns { weight, input, out } => {
                streams::scale_columns(kernels, weights.vector(*weight), place(input), place(out)).map(one)
            }
            Op::Blend { shares, x, y, out } => {
                let places = [x, y, out].map(place);
                streams::blend(kernels, weights.vector(*shares), places).map(one)
            }
            Op::Dot { heads, x, y, out } => streams::dot(kernels, *heads, [x, y, out].map(place)).map(one),
            Op::Sparsify { spread, x } => streams::sparsify(kernels, *spread, place(x)).map(one),
            Op::MixStreams { coefficients, input, out } => {
                streams::mix(kernels, [coefficients, input, out].map(place)).map(one)
            }
            Op::CorrectStreams { coefficients, truth, input, out } => {
                streams::correct(kernels, [coefficients, truth, input, out].map(place)).map(one)
            }
            Op::Shift { state, input, out } => {
                state::shift(kernels, step, &states[*state], [input, out].map(place)).map(one)
            }
            Op::Convolve { convolution: op, input, out } => {
                let (layer, places) = (&states[op.state], [input, out].map(place));
                state::convolve(kernels, step, weights, layer, *op, places).map(one)
            }
            Op::Scan { scan: op, x, dt, b, c, out } => {
                let (layer, places) = (&states[op.state], [x, dt, b, c, out].map(place));
                let decays = self.program.weights[op.decay].size();
                state::scan(kernels, step, weights, layer, (*op, decays), places).map(one)
            }
            Op::Keep { decay, x } => {
                let heads = self.program.weights[decay.decay].size();
                state::keep(kernels, weights, *decay, heads, place(x)).map(one)
            }
            Op::DeltaRule { rule: op, query, key, value, alpha, beta, out } => {
                let (layer, places) = (&states[op.state], [query, key, value, alpha, beta, out].map(place));
                state::delta_rule(kernels, step, weights, layer, *op, places).map(one)
            }
            Op::Wkv { wkv: op, query, kept, key, value, asked, removed, out } => {
                let places = [query, kept, key, value, asked, removed, out].map(place);
                state::wkv(kernels, step, &states[op.state], *op, places).map(one)
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
                let (cache, norm) = (&caches[*cache], norm(key_norm));
                let keys_values = KeysValues { cache, key: place(key), value: place(value), norm };
                let key_angles = self.rotation(*key_rope).key_angles;
                let rotation = Some(Rotation { key_angles, ..self.rotation(*query_rope) });
                heads(kernels, step, list, Some(queries), Some(keys_values), rotation).map(Vec::from_iter)
            }
            Op::Attention { attention: op, query, out } => {
                let (integers, written) =
                    (self.attention_integers(op, *out), self.attention_halves(op, *out));
                let (cache, query, out) = (&caches[op.cache], place(query), place(out));
                let sinks = op.sinks.map(|sinks| self.resources.weights.vector(sinks));
                let chosen = op.chosen.map(|chosen| self.place(chosen));
                let (op, rows) = (*op, self.attention_rows);
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
                    cache: &caches[indexer.cache],
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
                index::choose(kernels, step, list, op, place(weights), scores).map(one)
            }
            Op::Activate { activation, gate, up, out } => {
                let up = up.as_ref().map(place);
                activate::activate(kernels, *activation, place(gate), up, place(out)).map(one)
            }
            Op::Add { x, y } => add(kernels, place(x), place(y)).map(one),
            Op::Map { map: function, x } => map(kernels, *function, place(x)).map(one),
            Op::Gate { activation, gate, x } => {
                routing::gate(kernels, *activation, place(gate), place(x)).map(one)
            }
            Op::Route { routing, scores, out } => {
                let vector = |id: Option<WeightId>| id.map(|id| self.resources.weights.vector(id));
                let vectors = [vector(routing.bias), vector(routing.factors)];
                routing::route(kernels, *routing, vectors, place(scores), place(out)).map(one)
            }
            Op::Weigh { choice, input, out } => {
                routing::weigh(kernels, place(choice), place(input), place(out)).map(one)
            }
            Op::Combine { choice, weighted, input, out } => {
                routing::combine(kernels, place(choice), *weighted, place(input), place(out)).map(one)
            }
            Op::AdapterScales { out } => {
                adapters::scales(kernels, step, list, self.resources.first_scale, place(out)).map(one)
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
                pool(kernels, step, from, to.buffer).map(one)
            }
        }
    }

    fn norm(&self, norm: &program::Norm) -> Norm<'a> {
        let weights = self.resources.weights;
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
