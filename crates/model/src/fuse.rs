//! Rewrite rules: runs of plain ops become fused ops that touch memory once.
//!
//! Each rule looks at neighbouring nodes only and can be switched off. None may change a single bit of
//! the result: the fused ops are defined as the plain ones in order.

use crate::program::{Node, Norm, Op, Program, Projection, View};
use crate::verify::check;

/// Which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Linear ops that share their input and write adjacent columns become one (Q|K|V, gate|up).
    pub merge_linears: bool,
    /// Gate, up and activation become one op.
    pub gated_linear: bool,
    /// Head norms, rotation and KV write become one op.
    pub rope_kv_write: bool,
    /// A residual add and the norm after it become one op.
    pub add_norm: bool,
    /// Rows that do not want logits stop after the last layer's KV write.
    pub early_gather: bool,
}

impl Rules {
    /// Every rule.
    pub const ALL: Rules = Rules {
        merge_linears: true,
        gated_linear: true,
        rope_kv_write: true,
        add_norm: true,
        early_gather: true,
    };

    /// No rule: the plain program.
    pub const NONE: Rules = Rules {
        merge_linears: false,
        gated_linear: false,
        rope_kv_write: false,
        add_norm: false,
        early_gather: false,
    };
}

/// The program with all chosen rules applied.
pub fn fuse(program: &Program, rules: Rules) -> Program {
    let mut program = program.clone();
    if rules.merge_linears {
        rewrite(&mut program, merge_linears);
    }
    if rules.gated_linear {
        rewrite(&mut program, gated_linear);
    }
    if rules.rope_kv_write {
        rewrite(&mut program, rope_kv_write);
    }
    if rules.early_gather {
        raise_gather(&mut program.nodes);
    }
    if rules.add_norm {
        rewrite(&mut program, add_norm);
    }
    program
}

/// Looks at the beginning of some nodes of a program: the op that does the same, and for how many of them it
/// stands. A rule knows what the ops compute; that nothing is lost and that the op can run is [`rewrite`]'s care.
type Rule = fn(&Program, &[Node]) -> Option<(Op, usize)>;

/// Replaces nodes for which the rule gives a fused op, again and again from left to right.
fn rewrite(program: &mut Program, rule: Rule) {
    let mut first = 0;
    while first < program.nodes.len() {
        match rule(program, &program.nodes[first..]) {
            Some((op, length)) if fits(program, first, length, &op) => {
                let replaced = &program.nodes[first..first + length];
                let labels = replaced.iter().flat_map(|node| node.labels.clone()).collect();
                let layer = replaced.last().and_then(|node| node.layer);
                program.nodes.splice(first..first + length, [Node { op, labels, layer }]);
            }
            _ => first += 1,
        }
    }
}

/// Whether an op can take the place of some nodes: it can be run, and what they wrote and it does not is read by
/// no later node.
fn fits(program: &Program, first: usize, length: usize, op: &Op) -> bool {
    let written = op.outputs();
    let replaced = program.nodes[first..first + length].iter();
    let mut lost = replaced
        .flat_map(|node| node.op.outputs())
        .filter(|view| !written.iter().any(|written| written.covers(*view)));
    check(program, op).is_ok() && !lost.any(|view| is_read_later(program, first + length, view))
}

/// Whether some of a view is read, from a node on, before all of it is written.
fn is_read_later(program: &Program, first: usize, view: View) -> bool {
    for node in &program.nodes[first..] {
        if node.op.inputs().iter().any(|read| read.overlaps(view)) {
            return true;
        }
        if node.op.outputs().iter().any(|written| written.covers(view)) {
            return false;
        }
    }
    program.logits.overlaps(view)
}

fn merge_linears(_: &Program, nodes: &[Node]) -> Option<(Op, usize)> {
    let [first, second, ..] = nodes else { return None };
    let both = |parts: &[Projection], more: &[Projection]| parts.iter().chain(more).copied().collect();
    let op = match (&first.op, &second.op) {
        (Op::Linear { parts, input, out }, Op::Linear { parts: more, input: same, out: next })
            if input == same && out.is_followed_by(*next) =>
        {
            Op::Linear { parts: both(parts, more), input: *input, out: out.hull(*next) }
        }
        (
            Op::ExpertLinear { parts, choice, input, out },
            Op::ExpertLinear { parts: more, choice: as_well, input: same, out: next },
        ) if (choice, input) == (as_well, same) && out.is_followed_by(*next) => Op::ExpertLinear {
            parts: both(parts, more),
            choice: *choice,
            input: *input,
            out: out.hull(*next),
        },
        _ => return None,
    };
    Some((op, 2))
}

/// Linear (gate | up) and its activation.
fn gated_linear(_: &Program, nodes: &[Node]) -> Option<(Op, usize)> {
    let [first, second, ..] = nodes else { return None };
    let Op::Linear { parts, input, out: both } = &first.op else { return None };
    let Op::Activate { activation, gate: gate_view, up: Some(up_view), out } = second.op else { return None };
    let [gate, up] = parts[..] else { return None };
    let half = both.width / 2;
    let op = Op::GatedLinear { activation, gate, up, input: *input, out };
    (gate_view == both.part(0, half) && up_view == both.part(half, half)).then_some((op, 2))
}

/// [query norm, key norm,] query rope, key rope, KV write.
fn rope_kv_write(program: &Program, nodes: &[Node]) -> Option<(Op, usize)> {
    let norms = match nodes {
        [a, b, ..] => head_norm(&a.op).zip(head_norm(&b.op)),
        _ => None,
    };
    let before = if norms.is_some() { 2 } else { 0 };
    let [a, b, c, ..] = &nodes[before..] else { return None };
    let Op::Rope { rope: query_rope, heads, x: query } = a.op else { return None };
    let Op::Rope { rope: key_rope, heads: key_heads, x: key } = b.op else { return None };
    let Op::KvWrite { cache, key: written, value } = c.op else { return None };
    // Norms and rotations of other heads than those of attention are another computation.
    let stored_heads = program.caches.get(cache)?.heads;
    if key != written || key_heads != stored_heads {
        return None;
    }
    let (query_norm, key_norm) = match norms {
        None => (None, None),
        Some((q, k)) if (q.heads, q.view, k.heads, k.view) == (heads, query, key_heads, key) => {
            (Some(q.norm), Some(k.norm))
        }
        Some(_) => return None,
    };
    let op = Op::RopeKvWrite { cache, heads, query_rope, key_rope, query_norm, key_norm, query, key, value };
    Some((op, before + 3))
}

/// A norm in place.
struct HeadNorm {
    norm: Norm,
    heads: usize,
    view: View,
}

fn head_norm(op: &Op) -> Option<HeadNorm> {
    let Op::Norm { norm, heads, input, out } = *op else { return None };
    (input == out).then_some(HeadNorm { norm, heads, view: out })
}

fn add_norm(_: &Program, nodes: &[Node]) -> Option<(Op, usize)> {
    let [first, second, ..] = nodes else { return None };
    let (Op::Add { x, y }, Op::Norm { norm, heads: 1, input, out }) = (&first.op, &second.op) else {
        return None;
    };
    (input == x).then_some((Op::AddNorm { x: *x, y: *y, norm: *norm, out: *out }, 2))
}

/// Moves the gather up past every op that treats rows one by one and keeps nothing of them.
fn raise_gather(nodes: &mut [Node]) {
    let Some(mut at) = nodes.iter().position(|n| matches!(n.op, Op::Gather { .. })) else { return };
    while at > 0 {
        let above = &nodes[at - 1].op;
        let (inputs, outputs) = (above.inputs(), above.outputs());
        // An op that reads nothing is where rows begin; one that gathers reads other rows.
        if above.changes_state() || above.gathers() || inputs.is_empty() {
            break;
        }
        // What the op above writes is gathered through what it reads.
        let Op::Gather { views } = &mut nodes[at].op else { return };
        for output in outputs {
            *views = views.iter().flat_map(|view| view.without(output)).collect();
        }
        inputs.into_iter().for_each(|input| include(views, input));
        nodes.swap(at - 1, at);
        at -= 1;
    }
}

/// Adds a view to some that have no column in common, so that they still have none.
fn include(views: &mut Vec<View>, view: View) {
    if views.iter().any(|other| other.covers(view)) {
        return;
    }
    let mut whole = view;
    views.retain(|other| {
        let apart = !other.overlaps(whole);
        if !apart {
            whole = whole.hull(*other);
        }
        apart
    });
    views.push(whole);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Shape;

    fn kinds(program: &Program, layer: Option<usize>) -> Vec<&'static str> {
        program.nodes.iter().filter(|n| n.layer == layer).map(|n| n.op.kind()).collect()
    }

    #[test]
    fn a_llama_layer_becomes_eight_ops() {
        let program = fuse(&Shape::find("tinyllama-1.1b").unwrap().model().unwrap().program, Rules::ALL);
        // The residual of a layer and the norm of the next are one op, counted with the next.
        assert_eq!(
            kinds(&program, Some(3)),
            [
                "add-norm",
                "linear",
                "rope-kv-write",
                "attention",
                "linear",
                "add-norm",
                "gated-linear",
                "linear"
            ]
        );
        assert_eq!(kinds(&program, None), ["embed", "gather", "add-norm", "linear"]);
    }

    #[test]
    fn head_norms_join_the_kv_write() {
        let program = fuse(&Shape::find("qwen3-0.6b").unwrap().model().unwrap().program, Rules::ALL);
        let fused = program.nodes.iter().filter_map(|n| match &n.op {
            Op::RopeKvWrite { query_norm, key_norm, .. } => Some((query_norm.is_some(), key_norm.is_some())),
            _ => None,
        });
        assert_eq!(fused.collect::<Vec<_>>(), vec![(true, true); 28]);
    }

    #[test]
    fn only_wanted_rows_pass_the_last_kv_write() {
        for name in ["llama3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b", "gpt2-124m"] {
            let program = fuse(&Shape::find(name).unwrap().model().unwrap().program, Rules::ALL);
            let gather = program.nodes.iter().position(|n| matches!(n.op, Op::Gather { .. })).unwrap();
            assert!(matches!(program.nodes[gather - 1].op, Op::KvWrite { .. } | Op::RopeKvWrite { .. }));
            assert!(matches!(program.nodes[gather + 1].op, Op::Attention { .. }), "{name}");
            let Op::Gather { views } = &program.nodes[gather].op else { unreachable!() };
            let names: Vec<_> = views.iter().map(|v| program.buffers[v.buffer].name).collect();
            assert_eq!(names, ["x", "qkv"], "{name}: the residual stream and the queries");
        }
    }

    #[test]
    fn labels_survive_in_order() {
        for name in ["llama3.2-1b", "qwen3-0.6b", "gpt2-124m"] {
            let plain = Shape::find(name).unwrap().model().unwrap().program;
            let labels = |p: &Program| -> Vec<String> {
                p.nodes.iter().flat_map(|n| n.labels.clone()).filter(|l| l != "gather").collect()
            };
            assert_eq!(labels(&plain), labels(&fuse(&plain, Rules::ALL)), "{name}");
        }
    }

    #[test]
    fn no_rule_no_change() {
        let plain = Shape::find("qwen3-0.6b").unwrap().model().unwrap().program;
        assert_eq!(fuse(&plain, Rules::NONE), plain);
    }
}
