//! Which RMS norms leave the factors of their rows to the linear layers that read them, in arithmetics whose activations
//! are in groups: a group of `x · weight` can be rounded before the sum of squares of the whole row is known, and the
//! layer's results are multiplied with the factor instead. It is settled by the program alone.

use super::{Norm, Op, Program, View};

/// Columns that are rounded together.
const GROUP: usize = 32;

impl Op {
    /// The norm, and what it writes, of an RMS norm of whole rows.
    pub fn rms_norm(&self) -> Option<(&Norm, View)> {
        match self {
            Op::Norm { norm, heads: 1, out, .. } | Op::AddNorm { norm, out, .. } => Some((norm, *out)),
            _ => None,
        }
        .filter(|(norm, _)| norm.bias.is_none())
    }

    /// What a linear op of one matrix for all rows reads.
    pub fn linear_input(&self) -> Option<View> {
        match self {
            Op::Linear { input, .. } | Op::GatedLinear { input, .. } => Some(*input),
            _ => None,
        }
    }

    /// Whether what a norm has left of a view besides floats may be gone after the op, or of other rows.
    pub fn replaces_norm(&self, view: View) -> bool {
        match self {
            Op::Norm { heads: 1, .. } | Op::AddNorm { .. } => true,
            Op::Attention { .. } | Op::Gather { .. } => true,
            Op::GatedLinear { input, .. } => *input != view,
            _ => false,
        }
    }
}

impl Program {
    /// Whether a node is an RMS norm that leaves the factors of its rows: linear layers that `round` their activations in
    /// groups read it before the next norm or a gated layer takes their place, and before attention: after that there may
    /// be fewer rows, and whether there are must not change what is computed. The logits do not count: they round floats
    /// themselves, some rows at a time.
    pub fn leaves_factors(&self, index: usize, rounds: impl Fn(&Op) -> bool) -> bool {
        let Some((_, out)) = self.nodes.get(index).and_then(|node| node.op.rms_norm()) else { return false };
        let logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == self.logits);
        let (mut found, mut taken) = (false, false);
        for op in self.nodes[index + 1..].iter().map(|node| &node.op) {
            let reads = op.linear_input() == Some(out) && rounds(op);
            if reads && (taken || logits(op)) {
                return false;
            }
            found |= reads;
            taken |= op.replaces_norm(out);
            // A gather leaves the same values, of fewer rows.
            let writes = op.outputs().iter().any(|written| written.overlaps(out));
            if writes && !matches!(op, Op::Gather { .. }) {
                break;
            }
        }
        found && out.width.is_multiple_of(GROUP)
    }
}
