//! Which RMS norms leave the factors of their rows to the linear layers that read them, and which linear layers do
//! such a norm's part before that themselves. Both are settled by the program alone.

use gleed_model::program::{Norm, Op, Program, View, WeightId};

use super::layers::{has_integers, of_integers};

/// Whether an op is an RMS norm of whole rows, and what it writes.
fn rms_norm(op: &Op) -> Option<(&Norm, View)> {
    match op {
        Op::Norm { norm, heads: 1, out, .. } | Op::AddNorm { norm, out, .. } => Some((norm, *out)),
        _ => None,
    }
    .filter(|(norm, _)| norm.bias.is_none())
}

/// What a linear op reads.
fn linear_input(op: &Op) -> Option<View> {
    match op {
        Op::Linear { input, .. } | Op::GatedLinear { input, .. } => Some(*input),
        _ => None,
    }
}

/// The ops from a node on that see what a view holds there.
fn readers(program: &Program, first: usize, view: View) -> impl Iterator<Item = &Op> {
    let touches = move |views: Vec<View>| views.iter().any(|other| other.overlaps(view));
    let nodes = &program.nodes[first.min(program.nodes.len())..];
    let last = nodes.iter().position(|node| touches(node.op.outputs())).map_or(nodes.len(), |last| last + 1);
    nodes[..last].iter().map(|node| &node.op).filter(move |op| touches(op.inputs()))
}

/// Whether a node is an RMS norm that writes integers without the factors of rows: linear layers of integers read
/// it before the next norm or a gated layer takes their place, and before attention: after that there may be fewer rows,
/// and whether there are must not change what is computed. The logits do not count: they make integers of floats
/// themselves, some rows at a time.
pub(super) fn leaves_factors(program: &Program, index: usize) -> bool {
    let Some((_, out)) = program.nodes.get(index).and_then(|node| rms_norm(&node.op)) else { return false };
    let logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == program.logits);
    let (mut found, mut taken) = (false, false);
    for op in program.nodes[index + 1..].iter().map(|node| &node.op) {
        let reads = linear_input(op) == Some(out) && of_integers(program, op);
        if reads && (taken || logits(op)) {
            return false;
        }
        found |= reads;
        taken |= match op {
            Op::Norm { heads: 1, .. } | Op::AddNorm { .. } => true,
            Op::Attention { .. } | Op::Gather { .. } => true,
            Op::GatedLinear { input, .. } => *input != out,
            _ => false,
        };
        // A gather leaves the same values, of fewer rows.
        let writes = op.outputs().iter().any(|written| written.overlaps(out));
        if writes && !matches!(op, Op::Gather { .. }) {
            break;
        }
    }
    found && out.width.is_multiple_of(32)
}

/// The RMS norm that wrote what a view holds before a node, and its node.
pub(super) fn norm_of(program: &Program, index: usize, view: View) -> Option<(usize, &Norm)> {
    let wrote = |op: &Op| op.outputs().iter().any(|written| written.overlaps(view));
    let writer = (0..index).rfind(|before| wrote(&program.nodes[*before].op))?;
    let (norm, out) = rms_norm(&program.nodes[writer].op)?;
    (out == view).then_some((writer, norm))
}

/// What a linear layer adds its results to and the weights of the norm after that, where it may do both: nobody
/// else reads its results, and nobody reads the norm's as floats.
pub(super) fn next_norm(program: &Program, index: usize) -> Option<(View, WeightId)> {
    let Op::Linear { parts, out: result, .. } = &program.nodes[index].op else { return None };
    let Op::AddNorm { x, y, norm, out } = &program.nodes.get(index + 1)?.op else { return None };
    let alone = parts.len() == 1 && y == result && !x.overlaps(*y) && !x.overlaps(*out);
    let of_integers_only =
        |op: &Op| linear_input(op) == Some(*out) && op.matrices().iter().all(|id| has_integers(program, *id));
    let read = readers(program, index + 2, *result).next().is_some();
    let as_integers = readers(program, index + 2, *out).all(of_integers_only);
    (alone && !read && as_integers && leaves_factors(program, index + 1)).then_some((*x, norm.weight))
}

/// What a linear layer may add its results to, instead of the norm after it, and that norm, which then is for the op after
/// that to take: nobody else reads its results, nor those of the norm, and that op is a linear one.
pub(super) fn next_sum(program: &Program, index: usize) -> Option<(View, Norm)> {
    let Op::Linear { parts, input, out: result } = &program.nodes.get(index)?.op else { return None };
    let Op::AddNorm { x, y, norm, out } = &program.nodes.get(index + 1)?.op else { return None };
    let reader = &program.nodes.get(index + 2)?.op;
    let written = reader.outputs();
    let linear = linear_input(reader) == Some(*out) && !written.contains(&program.logits);
    // A layer does not write to a buffer that it reads.
    let apart = input.buffer != x.buffer && written.iter().all(|view| view.buffer != x.buffer);
    let alone = parts.len() == 1 && y == result && !x.overlaps(*y) && !x.overlaps(*out) && !y.overlaps(*out);
    let plain = norm.bias.is_none() && program.weights[norm.weight].rows == 1;
    let read = readers(program, index + 2, *result).next().is_some();
    let only = readers(program, index + 2, *out).count() == 1;
    (linear && apart && alone && plain && !read && only).then_some((*x, *norm))
}
