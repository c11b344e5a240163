//! Holds an executor against the reference: layer by layer, op by op, logits by logits.

use std::collections::HashMap;

use crate::batch::Batch;
use crate::executor::{Buffers, Executor, Observer, StepError};
use crate::program::{Node, Program, View};
use crate::reference::Reference;

/// How far some values are from the true ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Difference {
    /// The largest |value - truth|.
    pub absolute: f32,
    /// That, as a share of the largest |truth|.
    pub relative: f32,
    /// How many values have other bits than the truth.
    pub bits: usize,
}

impl Difference {
    /// Compares values with the truth. What is not finite is no distance away from the same, and infinitely far
    /// from anything else; it is no measure for other values.
    pub fn of(values: &[f32], truth: &[f32]) -> Difference {
        assert_eq!(values.len(), truth.len());
        let mut difference = Difference::default();
        let mut largest = 0.0f32;
        for (&value, &truth) in values.iter().zip(truth) {
            let same = value == truth || value.is_nan() && truth.is_nan();
            let finite = value.is_finite() && truth.is_finite();
            let off = if same {
                0.0
            } else if finite {
                (value - truth).abs()
            } else {
                f32::INFINITY
            };
            difference.absolute = difference.absolute.max(off);
            difference.bits += usize::from(value.to_bits() != truth.to_bits());
            if truth.is_finite() {
                largest = largest.max(truth.abs());
            }
        }
        if difference.absolute > 0.0 {
            difference.relative = difference.absolute / largest;
        }
        difference
    }
}

/// What one node wrote, against the truth.
#[derive(Debug, Clone)]
pub struct NodeDifference {
    /// The index of the node in the executor's program.
    pub node: usize,
    /// The name of the buffer.
    pub buffer: &'static str,
    /// How far it is from the truth.
    pub difference: Difference,
}

/// The logits of all rows, against the truth.
#[derive(Debug, Clone, Default)]
pub struct LogitsDifference {
    /// Over all rows and the whole vocabulary.
    pub difference: Difference,
    /// Rows compared.
    pub rows: usize,
    /// Rows whose most likely token is the true one.
    pub same_top: usize,
    /// Of each row the KL divergence of the executor's distribution from the true one, in nats.
    divergences: Vec<f64>,
}

impl LogitsDifference {
    /// Takes in one row.
    pub fn add(&mut self, values: &[f32], truth: &[f32]) {
        let d = Difference::of(values, truth);
        self.difference.absolute = self.difference.absolute.max(d.absolute);
        self.difference.relative = self.difference.relative.max(d.relative);
        self.difference.bits += d.bits;
        self.same_top += usize::from(top(values) == top(truth));
        self.divergences.push(kl_divergence(truth, values));
        self.rows += 1;
    }

    /// The mean over rows of the KL divergence.
    pub fn mean_divergence(&self) -> f64 {
        self.divergences.iter().sum::<f64>() / self.rows.max(1) as f64
    }

    /// What measures how far a program's rows are from the true ones: their mean KL divergence, or that of the row in
    /// the middle where rows choose experts. Rounding chooses the other of two experts that are nearly tied, and such
    /// a row is as far away as the two are from each other, however small the rounding was.
    pub fn divergence(&self, program: &Program) -> f64 {
        let mean = self.mean_divergence();
        if !program.has_experts() || mean.is_nan() {
            return mean;
        }
        let mut sorted = self.divergences.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

fn top(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)))
}

/// Σ p (ln p - ln q) of two rows of logits.
fn kl_divergence(p: &[f32], q: &[f32]) -> f64 {
    let log_total = |logits: &[f32]| {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|l| f64::from(l - max).exp()).sum();
        f64::from(max) + sum.ln()
    };
    let (p_total, q_total) = (log_total(p), log_total(q));
    p.iter()
        .zip(q)
        .map(|(p, q)| {
            let (p, q) = (f64::from(*p) - p_total, f64::from(*q) - q_total);
            p.exp() * (p - q)
        })
        .sum()
}

/// What the reference computed, by the label of the plain op that wrote it.
pub struct Recording {
    values: HashMap<String, Vec<(View, Vec<f32>)>>,
}

impl Recording {
    /// Runs the reference over a batch in which every row wants logits, so that no row is left out.
    /// `progress` is told of every node that is done.
    pub fn of(
        reference: &mut Reference,
        batch: &Batch,
        mut progress: impl FnMut(),
    ) -> Result<Recording, StepError> {
        reference.begin(batch)?;
        let nodes = reference.program().nodes.clone();
        let mut values = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            reference.run_node(index);
            let written = node.op.outputs().into_iter().map(|view| (view, read(reference, view)));
            values.insert(node.labels.join("+"), written.collect());
            progress();
        }
        Ok(Recording { values })
    }

    /// What the plain op of that label wrote, and where.
    fn written(&self, label: &str) -> &[(View, Vec<f32>)] {
        self.values.get(label).map_or(&[], Vec::as_slice)
    }
}

fn read(buffers: &dyn Buffers, view: View) -> Vec<f32> {
    let mut out = Vec::new();
    buffers.read(view, &mut out);
    out
}

/// Runs an executor over a batch and compares everything that it and a recording wrote to the same place. The
/// recording must be of the plain program that the executor's program was fused from, and of the batch's first
/// rows, or all of them; these and no others must want logits.
pub fn against_recording(
    executor: &mut dyn Executor,
    batch: &Batch,
    recording: &Recording,
) -> Result<Vec<NodeDifference>, StepError> {
    struct Comparison<'a> {
        program: Program,
        recording: &'a Recording,
        found: Vec<NodeDifference>,
    }
    impl Observer for Comparison<'_> {
        fn after(&mut self, node: usize, buffers: &dyn Buffers) {
            let Node { op, labels, .. } = &self.program.nodes[node];
            let outputs = op.outputs();
            let mut compared: Vec<View> = Vec::new();
            // Of the plain ops that a fused node stands for, the last one that wrote a place counts.
            for (view, truth) in labels.iter().rev().flat_map(|label| self.recording.written(label)) {
                let visible = outputs.iter().any(|out| out.covers(*view));
                if visible && !compared.iter().any(|seen| seen.overlaps(*view)) {
                    let difference = Difference::of(&read(buffers, *view)[..truth.len()], truth);
                    let buffer = self.program.buffers[view.buffer].name;
                    self.found.push(NodeDifference { node, buffer, difference });
                    compared.push(*view);
                }
            }
        }
    }
    let mut comparison = Comparison { program: executor.program().clone(), recording, found: vec![] };
    executor.step(batch, &mut comparison)?;
    Ok(comparison.found)
}

/// Runs an executor over a batch and, after each node, the same node of the reference on the same
/// inputs: what differs then is that one op's doing. Both must run the same program.
pub fn ops_alone(
    executor: &mut dyn Executor,
    reference: &mut Reference,
    batch: &Batch,
    progress: impl FnMut(),
) -> Result<Vec<NodeDifference>, StepError> {
    ops_of_first_rows(executor, reference, batch, batch, progress)
}

/// The same, with a reference that has only the first rows of the batch, because it is slow; these and no others
/// must want logits.
pub fn ops_of_first_rows(
    executor: &mut dyn Executor,
    reference: &mut Reference,
    batch: &Batch,
    first: &Batch,
    progress: impl FnMut(),
) -> Result<Vec<NodeDifference>, StepError> {
    struct Alone<'a, P: FnMut()> {
        reference: &'a mut Reference,
        /// What the next node will read, as the executor has it.
        inputs: Vec<(View, Vec<f32>)>,
        /// How many rows the reference has.
        rows: usize,
        found: Vec<NodeDifference>,
        progress: P,
    }
    impl<P: FnMut()> Observer for Alone<'_, P> {
        fn after(&mut self, node: usize, buffers: &dyn Buffers) {
            for (view, values) in self.inputs.drain(..) {
                let rows = values.len().min(self.rows * view.width);
                self.reference.load(view, &values[..rows]);
            }
            self.reference.run_node(node);
            for view in self.reference.program().nodes[node].op.outputs() {
                let truth = read(self.reference, view);
                let difference = Difference::of(&read(buffers, view)[..truth.len()], &truth);
                let buffer = self.reference.program().buffers[view.buffer].name;
                self.found.push(NodeDifference { node, buffer, difference });
            }
            if let Some(next) = self.reference.program().nodes.get(node + 1) {
                self.inputs = next.op.inputs().into_iter().map(|v| (v, read(buffers, v))).collect();
            }
            (self.progress)();
        }
    }
    assert!(executor.program() == reference.program(), "both executors must run the same program");
    reference.begin(first)?;
    let mut alone = Alone { reference, inputs: vec![], rows: first.rows().len(), found: vec![], progress };
    executor.step(batch, &mut alone)?;
    Ok(alone.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_hides_nothing() {
        let of = |values: &[f32], truth: &[f32]| {
            let Difference { absolute, relative, .. } = Difference::of(values, truth);
            (absolute, relative)
        };
        let (infinity, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(of(&[infinity, -infinity, nan, 1.0], &[infinity, -infinity, nan, 1.0]), (0.0, 0.0));
        // Beside an infinity that is right, what is wrong is as wrong as without it.
        assert_eq!(of(&[infinity, 3.0], &[infinity, 4.0]), (1.0, 0.25));
        assert_eq!(of(&[nan, 3.0], &[nan, 4.0]), (1.0, 0.25));
        for (value, truth) in
            [(5.0, infinity), (infinity, 5.0), (-infinity, infinity), (nan, 5.0), (5.0, nan)]
        {
            assert_eq!(of(&[value, 1.0], &[truth, 1.0]), (infinity, infinity), "{value} for {truth}");
        }
        // The difference of two finite values may be more than any.
        assert_eq!(of(&[f32::MAX], &[f32::MIN]).0, infinity);
    }

    #[test]
    fn rows_of_other_experts_do_not_count_where_experts_are_chosen() {
        let program = |shape| crate::shapes::Shape::find(shape).unwrap().model().unwrap().program;
        let (chosen, dense) = (program("qwen3-30b-a3b"), program("qwen3-0.6b"));
        let mut logits = LogitsDifference::default();
        for _ in 0..3 {
            logits.add(&[1.0, 2.0], &[1.0, 2.0]);
        }
        logits.add(&[5.0, 2.0], &[1.0, 2.0]);
        assert_eq!(logits.divergence(&chosen), 0.0);
        assert!(logits.divergence(&dense) > 0.1);
        assert_eq!(logits.divergence(&dense), logits.mean_divergence());
        logits.add(&[f32::NAN, 2.0], &[1.0, 2.0]);
        assert!(logits.divergence(&chosen).is_nan());
    }

    #[test]
    fn a_row_that_differs_from_infinity_is_counted() {
        let mut logits = LogitsDifference::default();
        logits.add(&[1.0, 2.0], &[1.0, f32::INFINITY]);
        assert_eq!(logits.difference.relative, f32::INFINITY);
    }
}
