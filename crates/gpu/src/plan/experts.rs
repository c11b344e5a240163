//! How the linear layers of experts are planned: in halves on matrix units, or as floats.

use gleed_model::program::{Activation, Op, Program, Projection, View, Weight, WeightId, experts_used};

use super::norms::{norm_of_experts, readers};
use super::{Command, Planner};
use crate::Result;
use crate::kernels::experts::halves::{
    ExpertHalves, NextNorm, Normed, Product, Summed, can_choose, has_normed,
};
use crate::kernels::experts::{self, Choosing};
use crate::launch::Kernels;
use crate::linear::{Matrix, PackedWeight};

/// Whose rows the tiles of experts hold after a node: what chose, among how many, and up to how many pairs nothing was
/// sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sorted {
    pub choice: View,
    pub experts: usize,
    pub most_direct: usize,
}

impl<'a> Planner<'a> {
    /// out = for each part, the outputs of each expert of the row.
    pub(super) fn experts(
        &self,
        kernels: &mut Kernels,
        op: &Op,
        matrix: impl Fn(WeightId) -> Result<&'a PackedWeight>,
    ) -> Result<Vec<Command>> {
        let Op::ExpertLinear { parts, choice, input, out } = op else { unreachable!("called for experts") };
        let (mut commands, mut offset) = (Vec::new(), 0);
        let mut sorted = self.sorted;
        let mut rest = &parts[..];
        while let Some((first, others)) = rest.split_first() {
            let Weight { experts: count, rows, columns, .. } = self.program.weights[first.weight];
            let width = experts_used(*choice, count) * rows;
            let sizes = [count, rows, columns];
            let part = self.with_bias(matrix(first.weight)?, first);
            let second = match self.resources.expert_rows.and(others.first()) {
                Some(second) => self.alike(part, [first, second], &matrix)?,
                None => None,
            };
            let taken = if second.is_some() { 2 } else { 1 };
            let place = self.place(out.part(offset, taken * width));
            rest = &rest[taken..];
            offset += taken * width;
            let (chosen, input) = (choice.map(|choice| self.place(choice)), self.place(*input));
            let Some(expert_rows) = self.resources.expert_rows else {
                let dispatches = experts::linear(kernels, part, sizes, chosen, input, place);
                commands.extend(dispatches.into_iter().map(Command::Dispatch));
                continue;
            };
            let activated = if second.is_some() && parts.len() == 2 { self.activation(op) } else { None };
            let product = Product {
                first: part,
                second,
                sizes,
                choice: chosen,
                input,
                out: place,
                activated: activated.map(|(activation, hidden)| (activation, self.place(hidden))),
                normed: self.norm_of_experts(self.index),
                chooses: self.choice_before(self.index),
                summed: if parts.len() == 1 { self.sum_after(op) } else { None },
            };
            let same = sorted.filter(|sorted| Some(sorted.choice) == *choice && sorted.experts == count);
            let same = same.map(|sorted| sorted.most_direct);
            let halves = ExpertHalves::new(kernels, &product, expert_rows, self.row_count, same);
            let most_direct = halves.most_direct();
            sorted = choice.map(|choice| Sorted { choice, experts: count, most_direct });
            commands.push(Command::Experts(halves));
        }
        Ok(commands)
    }

    /// The norm of a single row that experts do for themselves.
    pub(super) fn norm_of_experts(&self, node: usize) -> Option<Normed> {
        let Op::ExpertLinear { parts, input, .. } = &self.program.nodes[node].op else { return None };
        let ([halves, _], Some(_)) = (self.resources.halves?, self.resources.expert_rows) else {
            return None;
        };
        let (writer, x, norm) = norm_of_experts(self.program, node)?;
        let whole = |part: &Projection| self.program.weights[part.weight].columns == input.width;
        let can = parts.iter().all(whole) && has_normed(self.resources.room, input.width);
        let (weight, epsilon) = (self.resources.weights.vector(norm.weight), norm.epsilon);
        let normed = Normed { x: self.place(x), weight, epsilon, halves };
        (can && self.writes_factors(writer)).then_some(normed)
    }

    /// The choice of a single row that experts make for themselves, with its norm: that of the op before them.
    fn choice_before(&self, node: usize) -> Option<Choosing> {
        let columns = self.norm_of_experts(node)?.x.width;
        let Op::ExpertLinear { choice, .. } = &self.program.nodes[node].op else { return None };
        let before = &self.program.nodes[node.checked_sub(1)?].op;
        let is_theirs = matches!(before, Op::Route { out, .. } if Some(*out) == *choice);
        let can = |choosing: &Choosing| can_choose(self.resources.room, columns, *choosing);
        self.choosing(before).filter(can).filter(|_| is_theirs)
    }

    /// Whether the op after this one does its choice in a step of a single row.
    pub(super) fn chosen_later(&self) -> bool {
        self.program.nodes.len() > self.index + 1 && self.choice_before(self.index + 1).is_some()
    }

    /// A choice of experts.
    pub(super) fn choosing(&self, op: &Op) -> Option<Choosing> {
        let Op::Route { routing, scores, out } = op else { return None };
        let vector = |id: Option<WeightId>| id.map(|id| self.resources.weights.vector(id));
        let [bias, factors] = [routing.bias, routing.factors].map(vector);
        let [scores, out] = [scores, out].map(|view| self.place(*view));
        Some(Choosing { routing: *routing, bias, factors, scores, out })
    }

    /// The sum of what experts give, if it is the next op and no other reads that; and the norm after it.
    fn sum_after(&self, op: &Op) -> Option<Summed> {
        let Op::ExpertLinear { out: given, choice: Some(choice), .. } = op else { return None };
        let Some(Op::Combine { choice: by, weighted, input, out }) = self.next() else { return None };
        let is_read = readers(self.program, self.index + 2, *given).next().is_some();
        let next = self.norm_after(self.index + 1, *out).zip(self.resources.halves);
        let next = next.map(|((residual, weight), [halves, _])| NextNorm {
            residual: self.place(residual),
            weight: self.resources.weights.vector(weight),
            halves,
        });
        let summed = Summed { weighted: *weighted, out: self.place(*out), next };
        (by == choice && input == given && !is_read).then_some(summed)
    }

    /// The part after another, where it is a matrix of the same layout and shape.
    fn alike(
        &self,
        first: Matrix<'a>,
        [first_part, second]: [&Projection; 2],
        matrix: &impl Fn(WeightId) -> Result<&'a PackedWeight>,
    ) -> Result<Option<Matrix<'a>>> {
        let weights = &self.program.weights;
        let [Weight { experts, rows, .. }, Weight { experts: as_many, rows: as_wide, .. }] =
            [first_part, second].map(|part| &weights[part.weight]);
        let second = self.with_bias(matrix(second.weight)?, second);
        let same = (experts, rows) == (as_many, as_wide)
            && first.weight.packing().layout() == second.weight.packing().layout()
            && first.weight.packing().columns() == second.weight.packing().columns();
        Ok(same.then_some(second))
    }

    /// The activation of both parts of an op, if it is the next op.
    fn activation(&self, op: &Op) -> Option<(Activation, View)> {
        let Op::ExpertLinear { input, out: both, choice, .. } = op else { return None };
        let Some(Op::Activate { activation, gate, up: Some(up), out }) = self.next() else { return None };
        let half = both.width / 2;
        let apart =
            [Some(*input), Some(*both), *choice].into_iter().flatten().all(|view| !view.overlaps(*out));
        (*gate == both.part(0, half) && *up == both.part(half, half) && apart).then_some((*activation, *out))
    }
}

/// What the tiles of experts hold after an op.
pub(super) fn sorted_after(
    program: &Program,
    op: &Op,
    commands: &[Command],
    before: Option<Sorted>,
) -> Option<Sorted> {
    match (op, commands.last()) {
        (Op::ExpertLinear { parts, choice: Some(choice), .. }, Some(Command::Experts(halves))) => {
            let experts = program.weights[parts.last()?.weight].experts;
            Some(Sorted { choice: *choice, experts, most_direct: halves.most_direct() })
        }
        _ => before
            .filter(|sorted| !op.gathers() && op.outputs().iter().all(|out| !out.overlaps(sorted.choice))),
    }
}
