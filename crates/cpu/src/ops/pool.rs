//! The mean of a sequence's rows.

use gleed_model::program::{Map, View};

use super::Fixed;
use crate::kernels::add::Add;
use crate::kernels::map::MapValues;
use crate::machine::Machine;

/// Keeps only the rows that want logits: x is then the mean of all rows of the sequence. It is little beside what
/// made the rows, and one thread adds them up in ascending order.
pub(super) fn pool(fixed: Fixed, machine: &mut Machine, x: View) {
    let Machine { kernels, activations, rows, .. } = machine;
    let batch = fixed.batch.rows();
    let (mut first, mut kept) = (0, 0);
    while first < rows.len() {
        // Rows of a sequence follow each other, and none were left out before.
        let end = first + rows[first].length;
        for row in first + 1..end {
            let (sum, addend) = activations.two_rows(x, first, row);
            kernels.run(Add { x: sum, y: addend });
        }
        let factor = 1.0 / (end - first) as f32;
        kernels.run(MapValues { map: Map::Scale(factor), x: activations.row_mut(x, first) });
        for row in first..end {
            if batch[rows[row].batch].wants_logits {
                if kept != first {
                    activations.copy_row(x, first, kept);
                }
                rows[kept] = rows[row];
                kept += 1;
            }
        }
        first = end;
    }
    rows.truncate(kept);
    machine.rows_changed();
}
