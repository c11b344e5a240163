//! Which linear layers do a part of the RMS norm after them: what is before the factors of rows, where the norm leaves
//! those to the layers that read it ([`Program::leaves_factors`]). It is settled by the program alone.

use gleed_model::program::{Norm, Op, Program, View, WeightId};

/// The ops from a node on that see what a view holds there.
fn readers(program: &Program, first: usize, view: View) -> impl Iterator<Item = &Op> {
    let touches = move |views: Vec<View>| views.iter().any(|other| other.overlaps(view));
    let nodes = &program.nodes[first.min(program.nodes.len())..];
    let last = nodes.iter().position(|node| touches(node.op.outputs())).map_or(nodes.len(), |last| last + 1);
    nodes[..last].iter().map(|node| &node.op).filter(move |op| touches(op.inputs()))
}

/// The RMS norm that wrote what a view holds before a node, and its node.
pub(super) fn norm_of(program: &Program, index: usize, view: View) -> Option<(usize, &Norm)> {
    let wrote = |op: &Op| op.outputs().iter().any(|written| written.overlaps(view));
    let writer = (0..index).rfind(|before| wrote(&program.nodes[*before].op))?;
    let (norm, out) = program.nodes[writer].op.rms_norm()?;
    (out == view).then_some((writer, norm))
}

/// What a linear layer adds its results to and the weights of the norm after that, where it may do both: nobody
/// else reads its results, and nobody reads the norm's but linear ops that `round` all that they read.
pub(super) fn next_norm(
    program: &Program,
    index: usize,
    rounds: impl Fn(&Op) -> bool,
) -> Option<(View, WeightId)> {
    let Op::Linear { parts, out: result, .. } = &program.nodes[index].op else { return None };
    let Op::AddNorm { x, y, norm, out } = &program.nodes.get(index + 1)?.op else { return None };
    let alone = parts.len() == 1 && y == result && !x.overlaps(*y) && !x.overlaps(*out);
    let is_read = readers(program, index + 2, *result).next().is_some();
    let rounded = readers(program, index + 2, *out).all(|op| op.linear_input() == Some(*out) && rounds(op));
    (alone && !is_read && rounded).then_some((*x, norm.weight))
}
