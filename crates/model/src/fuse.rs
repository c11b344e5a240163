//! Rewrite rules: runs of plain ops become fused ops that touch memory once.
//!
//! Each rule looks at neighbouring nodes only and can be switched off. None may change a single bit of
//! the result: the fused ops are defined as the plain ones in order.

use crate::program::{Node, Norm, Op, Program, View};

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
    let nodes = &mut program.nodes;
    if rules.merge_linears {
        rewrite_pairs(nodes, merge_linears);
    }
    if rules.gated_linear {
        gate_linears(nodes);
    }
    if rules.rope_kv_write {
        rope_kv_writes(nodes);
    }
    if rules.early_gather {
        raise_gather(nodes);
    }
    if rules.add_norm {
        rewrite_pairs(nodes, add_norm);
    }
    program
}

/// Replaces neighbours for which the rule gives a fused op, again and again from left to right.
fn rewrite_pairs(nodes: &mut Vec<Node>, rule: fn(&Op, &Op) -> Option<Op>) {
    let mut done: Vec<Node> = Vec::with_capacity(nodes.len());
    for mut node in nodes.drain(..) {
        if let Some(previous) = done.last()
            && let Some(op) = rule(&previous.op, &node.op)
        {
            let mut labels = done.pop().expect("there is a previous node").labels;
            labels.append(&mut node.labels);
            done.push(Node { op, labels, layer: node.layer });
        } else {
            done.push(node);
        }
    }
    *nodes = done;
}

fn merge_linears(first: &Op, second: &Op) -> Option<Op> {
    let (Op::Linear { parts, input, out }, Op::Linear { parts: more, input: same, out: next }) =
        (first, second)
    else {
        return None;
    };
    (input == same && out.is_followed_by(*next)).then(|| Op::Linear {
        parts: parts.iter().chain(more).copied().collect(),
        input: *input,
        out: View { width: out.width + next.width, ..*out },
    })
}

/// Linear (gate | up) and its activation, where nothing else reads the gate and up values.
fn gate_linears(nodes: &mut Vec<Node>) {
    let mut index = 0;
    while index + 1 < nodes.len() {
        if let Some(op) = gated_linear(&nodes[index].op, &nodes[index + 1].op)
            && let Op::Linear { out, .. } = nodes[index].op
            && !is_read_later(&nodes[index + 2..], out)
        {
            let activation = nodes.remove(index + 1);
            nodes[index].op = op;
            nodes[index].labels.extend(activation.labels);
        }
        index += 1;
    }
}

fn gated_linear(first: &Op, second: &Op) -> Option<Op> {
    let (
        Op::Linear { parts, input, out: both },
        Op::Activate { activation, gate: gate_view, up: Some(up_view), out },
    ) = (first, second)
    else {
        return None;
    };
    let [gate, up] = parts[..] else { return None };
    let half = both.width / 2;
    (*gate_view == both.part(0, half) && *up_view == both.part(half, half)).then_some(Op::GatedLinear {
        activation: *activation,
        gate,
        up,
        input: *input,
        out: *out,
    })
}

/// Whether any node reads the view's buffer before one writes all of the view.
fn is_read_later(nodes: &[Node], view: View) -> bool {
    for node in nodes {
        if node.op.inputs().iter().any(|v| v.buffer == view.buffer) {
            return true;
        }
        if node.op.outputs().contains(&view) {
            return false;
        }
    }
    false
}

/// [query norm, key norm,] query rope, key rope, KV write.
fn rope_kv_writes(nodes: &mut Vec<Node>) {
    let mut index = 0;
    while index < nodes.len() {
        if let Some((op, length)) = rope_kv_write(&nodes[index..]) {
            let layer = nodes[index].layer;
            let labels = nodes[index..index + length].iter().flat_map(|n| n.labels.clone()).collect();
            nodes.splice(index..index + length, [Node { op, labels, layer }]);
        }
        index += 1;
    }
}

fn rope_kv_write(nodes: &[Node]) -> Option<(Op, usize)> {
    let (query_norm, key_norm) = match nodes {
        [a, b, ..] => (head_norm(&a.op), head_norm(&b.op)),
        _ => (None, None),
    };
    let norms = if query_norm.is_some() && key_norm.is_some() { 2 } else { 0 };
    let [a, b, c, ..] = &nodes[norms..] else { return None };
    let Op::Rope { rope, heads, x: query } = a.op else { return None };
    let Op::Rope { rope: key_rope, x: key, .. } = b.op else { return None };
    let Op::KvWrite { cache, key: written, value } = c.op else { return None };
    if rope != key_rope || key != written {
        return None;
    }
    let (query_norm, key_norm) = match (query_norm, key_norm) {
        (Some((q, q_view)), Some((k, k_view))) if q_view == query && k_view == key => (Some(q), Some(k)),
        (None, None) => (None, None),
        _ => return None,
    };
    let op = Op::RopeKvWrite { cache, heads, rope, query_norm, key_norm, query, key, value };
    Some((op, norms + 3))
}

/// A norm over heads, in place.
fn head_norm(op: &Op) -> Option<(Norm, View)> {
    match op {
        Op::Norm { norm, input, out, .. } if input == out => Some((*norm, *out)),
        _ => None,
    }
}

fn add_norm(first: &Op, second: &Op) -> Option<Op> {
    let (Op::Add { x, y }, Op::Norm { norm, heads: 1, input, out }) = (first, second) else { return None };
    (input == x && out != x).then_some(Op::AddNorm { x: *x, y: *y, norm: *norm, out: *out })
}

/// Moves the gather up past every op that treats rows one by one, to just after the last KV write.
fn raise_gather(nodes: &mut [Node]) {
    let Some(mut at) = nodes.iter().position(|n| matches!(n.op, Op::Gather { .. })) else { return };
    while at > 0 {
        let above = &nodes[at - 1].op;
        if matches!(above, Op::Input { .. } | Op::Embed { .. } | Op::KvWrite { .. } | Op::RopeKvWrite { .. })
        {
            break;
        }
        // What the op above writes is gathered through what it reads.
        let (inputs, outputs) = (above.inputs(), above.outputs());
        let Op::Gather { views } = &mut nodes[at].op else { return };
        views.retain(|v| !outputs.iter().any(|o| o.covers(*v)));
        for input in inputs {
            if !views.iter().any(|v| v.covers(input)) {
                views.push(input);
            }
        }
        nodes.swap(at - 1, at);
        at -= 1;
    }
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
