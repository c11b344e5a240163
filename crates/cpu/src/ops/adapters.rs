//! Adapters: how much of each a row takes, and what it adds. Threads take strips of columns and go through all rows, so
//! that the upper matrices are read once for all of them.

use gleed_model::program::{LowRank, View, experts_used};

use super::Fixed;
use super::rows::for_each_row;
use crate::kernels::low_rank::AddLowRank;
use crate::machine::{Machine, fork};
use crate::plan::Plan;

/// Columns of a strip: what a few ranks of them take stays near.
pub(crate) const STRIP: usize = 256;

/// out = how much of each adapter the row takes.
pub(super) fn scales(fixed: Fixed, machine: &mut Machine, out: View) {
    let Machine { pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), out.width, |_, row| {
        let table = rows[row.index()].table;
        for (adapter, scale) in row.write(out).iter_mut().enumerate() {
            *scale = fixed.batch.adapter_scale(fixed.program, table, adapter);
        }
    });
}

/// x += what the adapters of the row add.
pub(super) fn add(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    parts: &[LowRank],
    choice: Option<View>,
    [scales, input, x]: [View; 3],
) {
    let Machine { kernels, pool, activations, rows, whole, .. } = machine;
    let weights = fixed.weights;
    let ([scales, hidden, chosen], strips) =
        activations.split_view([scales, input, choice.unwrap_or(input)], x, whole, &plan.columns);
    let taken = (0..rows.len()).filter(|row| scales.row(*row).iter().any(|scale| *scale != 0.0)).count();
    // A multiply-add is a fraction of what the threshold counts as a value's work.
    fork(pool, strips.len(), taken * input.width * x.width / 8, |_| {
        for mut rectangle in strips.in_shares(plan.share) {
            let columns = plan.columns.part(rectangle.column_part);
            for row in rectangle.rows() {
                let mut first = 0;
                for LowRank { adapter, up, factor } in parts {
                    let weight = weights.get(*up);
                    let (rank, outputs) = (weight.rows, weight.columns);
                    let (slot, column) = (columns.start / outputs, columns.start % outputs);
                    let hidden = &hidden.row(row)[first + slot * rank..][..rank];
                    first += experts_used(choice, weight.experts) * rank;
                    let scale = scales.row(row)[*adapter];
                    // Nothing is not the same as adding zero.
                    if scale == 0.0 {
                        continue;
                    }
                    let expert = choice.map_or(slot, |_| chosen.row(row)[slot] as usize);
                    let up = &weights.vector(*up)[expert * rank * outputs + column..];
                    let x = rectangle.row(row);
                    kernels.run(AddLowRank { scale: scale * factor, hidden, up, stride: outputs, x });
                }
            }
        }
    });
}
