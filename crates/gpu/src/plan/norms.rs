//! Which linear layers do a part of the RMS norm after them: what is before the factors of rows, where the norm leaves
//! those to the layers that read it ([`Program::leaves_factors`]). It is settled by the program alone.

use gleed_model::program::{Norm, Op, Program, View, WeightId};

/// The nodes from one on that see what a view holds there.
pub(super) fn readers(program: &Program, first: usize, view: View) -> impl Iterator<Item = usize> {
    let touches = move |views: Vec<View>| views.iter().any(|other| other.overlaps(view));
    let nodes = &program.nodes;
    let first = first.min(nodes.len());
    let last = nodes[first..].iter().position(|node| touches(node.op.outputs()));
    let end = last.map_or(nodes.len(), |last| first + last + 1);
    (first..end).filter(move |node| touches(nodes[*node].op.inputs()))
}

/// The RMS norm that wrote what a view holds before a node, and its node.
pub(super) fn norm_of(program: &Program, index: usize, view: View) -> Option<(usize, &Norm)> {
    let wrote = |op: &Op| op.outputs().iter().any(|written| written.overlaps(view));
    let writer = (0..index).rfind(|before| wrote(&program.nodes[*before].op))?;
    let (norm, out) = program.nodes[writer].op.rms_norm()?;
    (out == view).then_some((writer, norm))
}

/// What the results of a node are added to and the weights of the norm after that, where the node may do both: no
/// other reads them, and the norm's are read by linear ops that `round` all that they read, and by nodes that do without.
pub(super) fn next_norm(
    program: &Program,
    (index, result): (usize, View),
    rounds: impl Fn(&Op) -> bool,
    does_without: impl Fn(usize) -> bool,
) -> Option<(View, WeightId)> {
    let Op::AddNorm { x, y, norm, out } = &program.nodes.get(index + 1)?.op else { return None };
    let alone = *y == result && !x.overlaps(*y) && !x.overlaps(*out);
    let is_read = readers(program, index + 2, result).next().is_some();
    let rounded = readers(program, index + 2, *out).all(|node| {
        let op = &program.nodes[node].op;
        op.linear_input() == Some(*out) && rounds(op) || does_without(node)
    });
    (alone && !is_read && rounded).then_some((*x, norm.weight))
}

/// The RMS norm that experts read, with what it is of, where that and what the norm has left besides floats are still there.
pub(super) fn norm_of_experts(program: &Program, index: usize) -> Option<(usize, View, &Norm)> {
    let Op::ExpertLinear { input, .. } = &program.nodes[index].op else { return None };
    let (writer, norm) = norm_of(program, index, *input)?;
    let (Op::Norm { input: x, .. } | Op::AddNorm { x, .. }) = &program.nodes[writer].op else { return None };
    let is_there = |op: &Op| {
        let writes = op.outputs().iter().any(|out| out.overlaps(*x));
        !writes && !op.replaces_norm(*input)
    };
    let between = &program.nodes[writer + 1..index];
    (!x.overlaps(*input) && between.iter().all(|node| is_there(&node.op))).then_some((writer, *x, norm))
}
