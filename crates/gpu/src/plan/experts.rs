//! How the linear layers of experts are planned: in halves on matrix units, or as floats.

use gleed_model::program::{Activation, Op, Program, Projection, View, Weight, WeightId, experts_used};

use super::{Command, Planner};
use crate::Result;
use crate::kernels::experts;
use crate::kernels::experts::halves::{ExpertHalves, Product};
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
