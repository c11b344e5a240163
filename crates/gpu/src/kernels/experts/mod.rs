//! Experts: which ones a row uses, their products, and what is made of these.

pub(crate) mod halves;
pub(crate) mod tiles;

use gleed_model::program::Activation;
use gleed_model::routing::{Gate, LEAST_SUM, Routing};

use super::{Dispatch, Grid, Place, Source};
use crate::common;
use crate::launch::{Buffer, Kernels};
use crate::linear::{Matrix, PackedWeight};

/// Threads of a choice, at most: one for each expert.
const THREADS: usize = 256;

/// A choice of experts: which ones rows use, by their scores, then their weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choosing {
    pub routing: Routing,
    /// The routing's.
    pub bias: Option<Buffer>,
    pub factors: Option<Buffer>,
    pub scores: Place,
    pub out: Place,
}

impl Choosing {
    /// Bytes of a workgroup's memory that `choose` needs.
    fn bytes(self) -> usize {
        let groups = self.routing.groups.map_or(1, |groups| groups.count);
        12 * self.scores.width.next_multiple_of(4) + 8 * self.routing.used + 4 * groups
    }

    /// The function `choose` for a kernel of `threads` threads, and what it needs.
    fn with_choose(self, source: Source, threads: usize) -> Source {
        let Choosing { routing, bias, factors, scores, .. } = self;
        let groups = routing.groups.map_or((1, 1), |groups| (groups.count, groups.used));
        let source = source
            .snippet(include_str!("choose.wgsl"))
            .size("THREADS", threads)
            .size("USED", routing.used)
            .flag("SOFTMAX", routing.gate == Gate::Softmax)
            .flag("SIGMOID", routing.gate == Gate::Sigmoid)
            .flag("SOFTMAX_OF_CHOSEN", routing.gate == Gate::SoftmaxOfChosen)
            .size("EXPERT_GROUPS", groups.0)
            .size("EXPERT_GROUPS_USED", groups.1)
            .flag("NORMALISED", routing.normalised)
            .float("LEAST_SUM", LEAST_SUM)
            .float("SCALE", routing.scale)
            .read_place("scores", "SCORES_", scores);
        // What is not there is never read: a vector that is takes its place.
        let vectors = [("bias", "BIASED", bias), ("factors", "WITH_FACTORS", factors)];
        vectors.into_iter().fold(source, |source, (name, flag, vector)| {
            source.flag(flag, vector.is_some()).read(name, "f32", vector.unwrap_or(scores.buffer))
        })
    }
}

/// out = the experts of each row, then their weights.
pub(crate) fn route(kernels: &mut Kernels, choosing: Choosing) -> Dispatch {
    let experts = choosing.scores.width;
    let source = Source::new("route", include_str!("route.wgsl"))
        .snippet(include_str!("../../common/exp.wgsl"))
        .size("EXPERTS", experts)
        .write_place("out", "OUT_", choosing.out);
    let source = choosing.with_choose(source, experts.next_multiple_of(32).min(THREADS));
    kernels.dispatch(source, Grid::Rows(1))
}

/// out = the outputs of each expert of the row, for one matrix of each expert: a dispatch for each piece that they
/// had to be cut into.
pub(crate) fn linear(
    kernels: &mut Kernels,
    matrix: Matrix,
    [experts, outputs, columns]: [usize; 3],
    choice: Option<Place>,
    input: Place,
    out: Place,
) -> Vec<Dispatch> {
    let weight: &PackedWeight = matrix.weight;
    let (used, tiles) = (choice.map_or(experts, |choice| choice.width / 2), outputs.div_ceil(32));
    let dispatches = weight.pieces().iter().map(|piece| {
        let source = Source::new("expert-linear", include_str!("linear.wgsl"))
            .matrix(weight, piece)
            .size("FIRST", piece.rows.start)
            .size("COUNT", piece.rows.len())
            .size("EXPERTS", experts)
            .size("OUTPUTS", outputs)
            .size("COLUMNS", columns)
            .size("TILES", tiles)
            .size("SLOT_STRIDE", if input.width == columns { 0 } else { columns })
            .flag("BIASED", matrix.bias.is_some())
            .flag("CHOSEN", choice.is_some())
            .read("bias", "f32", matrix.bias.unwrap_or(input.buffer))
            .read_place("choice", "CHOICE_", choice.unwrap_or(input))
            .read_place("x", "X_", input)
            .write_place("out", "OUT_", out);
        kernels.dispatch(source, Grid::Rows((used * tiles) as u32))
    });
    dispatches.collect()
}

/// out = the input times the weight of each expert of the row.
pub(crate) fn weigh(kernels: &mut Kernels, choice: Place, input: Place, out: Place) -> Dispatch {
    let source = Source::new("weigh", include_str!("weigh.wgsl"))
        .size("USED", choice.width / 2)
        .size("WIDTH", input.width)
        .read_place("choice", "CHOICE_", choice)
        .read_place("x", "X_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// out = the sum of what the experts of the row gave, in order of rank.
pub(crate) fn combine(
    kernels: &mut Kernels,
    choice: Place,
    weighted: bool,
    input: Place,
    out: Place,
) -> Dispatch {
    let source = Source::new("combine", include_str!("combine.wgsl"))
        .size("USED", choice.width / 2)
        .size("WIDTH", out.width)
        .flag("WEIGHTED", weighted)
        .read_place("choice", "CHOICE_", choice)
        .read_place("x", "X_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// x, cut into equal parts, is multiplied part by part with activation(gate).
pub(crate) fn gate(kernels: &mut Kernels, activation: Activation, gate: Place, x: Place) -> Dispatch {
    let source = Source::new("gate", include_str!("gate.wgsl"))
        .snippet(&common::activation(activation))
        .size("WIDTH", x.width)
        .size("PART", x.width / gate.width)
        .read_place("gate", "GATE_", gate)
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}
