//! Where numbers end: NaN among the results of a step, and the op that it came from.
//!
//! A NaN is kept by every op (see `docs/arithmetic.md`), so that it reaches the logits of its row and of every
//! later row of its sequence. The reader of logits looks at them first, which is cheap; only when one is NaN
//! is the step run again, op by op, to name the first one that gave it.

use crate::batch::{Batch, Row};
use crate::executor::{Buffers, Executor, Observer, StepError};
use crate::program::{Node, Op, Program, experts_used};

/// The first row of the batch whose logits, those of the executor's last step, hold a NaN.
pub fn row_without_numbers(executor: &dyn Executor, batch: &Batch) -> Option<usize> {
    batch.wanted().enumerate().find(|(index, _)| has_nan(executor.logits(*index))).map(|(_, row)| row)
}

/// Whether one of the values is NaN.
pub fn has_nan(values: &[f32]) -> bool {
    // Whole chunks without a way out, so that the loop has no branch for every value.
    values.chunks(1024).any(|chunk| chunk.iter().fold(false, |any, x| any | x.is_nan()))
}

/// Runs a batch (again) and names the op that first gives a NaN, if any does:
/// [`StepError::NotANumber`]. Keys and values are written as before.
pub fn find_nan(executor: &mut dyn Executor, batch: &Batch) -> Result<Option<StepError>, StepError> {
    let program = executor.program().clone();
    let mut finder = Finder { program: &program, rows: batch.rows().to_vec(), values: vec![], found: None };
    executor.step(batch, &mut finder)?;
    Ok(finder.found)
}

/// Looks at everything that each node writes.
struct Finder<'a> {
    program: &'a Program,
    /// The rows that the node has seen.
    rows: Vec<Row>,
    values: Vec<f32>,
    found: Option<StepError>,
}

impl Observer for Finder<'_> {
    fn after(&mut self, node: usize, buffers: &dyn Buffers) {
        let node = &self.program.nodes[node];
        if node.op.gathers() {
            self.rows.retain(|row| row.wants_logits);
        }
        for view in node.op.outputs() {
            if self.found.is_some() {
                return;
            }
            self.values.clear();
            buffers.read(view, &mut self.values);
            if let Some(index) = self.values.iter().position(|x| x.is_nan()) {
                let (row, column) = (index / view.width, index % view.width);
                let position = self.rows.get(row).map_or(0, |row| row.position);
                self.found = Some(StepError::NotANumber { op: name(self.program, node, column), position });
            }
        }
    }
}

/// The plain op that wrote a column: of several matrices side by side the right one, else all that the node
/// stands for.
fn name(program: &Program, node: &Node, column: usize) -> String {
    let several = match &node.op {
        Op::Linear { parts, .. } => Some((parts, 1)),
        Op::ExpertLinear { parts, choice, .. } => {
            let experts = parts.first().map_or(0, |part| program.weights[part.weight].experts);
            Some((parts, experts_used(*choice, experts)))
        }
        _ => None,
    };
    if let Some((parts, times)) = several
        && parts.len() == node.labels.len()
    {
        let mut end = 0;
        for (part, label) in parts.iter().zip(&node.labels) {
            end += times * program.weights[part.weight].rows;
            if column < end {
                return label.clone();
            }
        }
    }
    if node.labels.is_empty() { node.op.kind().to_string() } else { node.labels.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_seen_wherever_it_is() {
        assert!(!has_nan(&[]));
        for count in [1, 15, 1024, 1025, 3000] {
            let mut values = vec![f32::INFINITY; count];
            assert!(!has_nan(&values));
            for index in [0, count / 2, count - 1] {
                values[index] = -f32::NAN;
                assert!(has_nan(&values), "{index} of {count}");
                values[index] = f32::NEG_INFINITY;
            }
        }
    }
}
