//! Adds the ops of adapters to a plain program.
//!
//! Linear ops that share their input stay neighbours, so that they can still become one: the lower matrices of all of
//! them follow, which become one op too, and then what is added to each. Only the logits come last: their lower matrices
//! are multiplied before them.

use gleed_gguf::Format;

use super::{Adapter, made};
use crate::program::{Buffer, LowRank, Node, Op, Program, Projection, View, Weight, WeightId, experts_used};
use crate::verify::verify_flow;
use crate::{Error, Result};

/// The program with adapters that rows may take.
pub(super) fn attach(mut program: Program, adapters: &[Adapter]) -> Result<Program> {
    if adapters.is_empty() {
        return Ok(program);
    }
    program.adapters = adapters.iter().map(|adapter| adapter.info.clone()).collect();
    let nodes = std::mem::take(&mut program.nodes);
    program.buffers.push(Buffer { name: "adapter_scales", width: adapters.len() });
    let scales = View { buffer: program.buffers.len() - 1, offset: 0, width: adapters.len() };
    program.buffers.push(Buffer { name: "low_rank", width: 0 });
    let hidden = program.buffers.len() - 1;
    let first =
        Node { op: Op::AdapterScales { out: scales }, labels: vec!["adapter_scales".into()], layer: None };
    program.nodes.push(first);
    let mut attaching = Attaching { program, adapters, scales, hidden };
    let mut rest = &nodes[..];
    while !rest.is_empty() {
        let (run, others) = rest.split_at(run(rest));
        attaching.add(run);
        rest = others;
    }
    let Attaching { mut program, .. } = attaching;
    keep_scales(&mut program.nodes, scales);
    verify_flow(&program).map_err(|misfit| Error::Adapter {
        file: adapters.iter().map(|adapter| adapter.info.name.as_str()).collect::<Vec<_>>().join(", "),
        what: format!("cannot be used with this model: {} {}", misfit.kind, misfit.what),
    })?;
    Ok(program)
}

/// How many of the first nodes are linear ops of one input that leave each other's outputs alone; or one node of any kind.
fn run(nodes: &[Node]) -> usize {
    let Some((choice, input)) = nodes.first().and_then(|node| operands(&node.op)) else { return 1 };
    let alike = |node: &&Node| operands(&node.op) == Some((choice, input));
    let candidates = nodes.iter().take_while(alike).count();
    let outs: Vec<View> = nodes[..candidates].iter().flat_map(|node| node.op.outputs()).collect();
    let apart = |end: &usize| outs[..*end].iter().all(|out| !out.overlaps(outs[*end]));
    (1..candidates).find(|end| !apart(end)).unwrap_or(candidates)
}

/// What chooses the experts of a linear op, and its input.
fn operands(op: &Op) -> Option<(Option<View>, View)> {
    match op {
        Op::Linear { input, .. } => Some((None, *input)),
        Op::ExpertLinear { choice, input, .. } => Some((*choice, *input)),
        _ => None,
    }
}

/// Where an adapter may add something: a weight, what chooses among its experts, and where its outputs are.
struct Output {
    weight: WeightId,
    choice: Option<View>,
    out: View,
}

struct Attaching<'a> {
    program: Program,
    adapters: &'a [Adapter],
    scales: View,
    /// The buffer of what lower matrices give.
    hidden: usize,
}

impl Attaching<'_> {
    /// Adds nodes, and what adapters do to their outputs.
    fn add(&mut self, run: &[Node]) {
        let (mut lower, mut upper, mut width) = (Vec::new(), Vec::new(), 0);
        for node in run {
            for output in outputs(&self.program, &node.op) {
                self.change(node, output, &mut lower, &mut upper, &mut width);
            }
        }
        let buffer = &mut self.program.buffers[self.hidden];
        buffer.width = buffer.width.max(width);
        let logits = self.program.logits;
        let is_head = run.iter().any(|node| node.op.outputs().contains(&logits));
        let nodes = &mut self.program.nodes;
        if is_head {
            nodes.append(&mut lower);
        }
        nodes.extend_from_slice(run);
        nodes.append(&mut lower);
        nodes.append(&mut upper);
    }

    /// The nodes of all adapters that change a weight, with `width` columns of what lower matrices give.
    fn change(
        &mut self,
        node: &Node,
        Output { weight, choice, out }: Output,
        lower: &mut Vec<Node>,
        upper: &mut Vec<Node>,
        width: &mut usize,
    ) {
        let name = self.program.weights[weight].name.clone();
        let label = name.strip_suffix(".weight").unwrap_or(&name);
        let is_embedding = matches!(node.op, Op::Embed { .. });
        let (mut parts, first) = (Vec::new(), *width);
        for (number, adapter) in self.adapters.iter().enumerate() {
            let Some(pair) = adapter.pairs.get(&name).filter(|pair| pair.is_embedding == is_embedding) else {
                continue;
            };
            let Weight { experts, rows, columns, .. } = self.program.weights[weight];
            let rank = pair.rank;
            let used = experts_used(choice, experts) * rank;
            let hidden = View { buffer: self.hidden, offset: *width, width: used };
            *width += used;
            let (down_shape, up_shape) = match is_embedding {
                true => ([1, rows, rank], [1, rank, columns]),
                false => ([experts, rank, columns], [experts, rank, rows]),
            };
            let down = self.weight(made::lower_name(&name, number), down_shape);
            let up = self.weight(made::upper_name(&name, number), up_shape);
            let part = vec![Projection { weight: down, bias: None }];
            let op = match &node.op {
                Op::Embed { .. } => Op::Embed { table: down, out: hidden },
                Op::ExpertLinear { input, .. } => {
                    Op::ExpertLinear { parts: part, choice, input: *input, out: hidden }
                }
                op => Op::Linear { parts: part, input: op.inputs()[0], out: hidden },
            };
            lower.push(Node { op, labels: vec![format!("{label}.lora_a.{number}")], layer: node.layer });
            parts.push(LowRank { adapter: number, up, factor: adapter.factor(rank) });
        }
        if !parts.is_empty() {
            let input = View { buffer: self.hidden, offset: first, width: *width - first };
            let op = Op::AddLowRank { parts, choice, scales: self.scales, input, x: out };
            upper.push(Node { op, labels: vec![format!("{label}.lora_b")], layer: node.layer });
        }
    }

    fn weight(&mut self, name: String, [experts, rows, columns]: [usize; 3]) -> WeightId {
        let weights = &mut self.program.weights;
        weights.push(Weight { name, experts, rows, columns, format: Format::F32 });
        weights.len() - 1
    }
}

/// The weights of a plain op whose products can be changed.
fn outputs(program: &Program, op: &Op) -> Vec<Output> {
    let (parts, choice, out) = match op {
        Op::Embed { table, out } => return vec![Output { weight: *table, choice: None, out: *out }],
        Op::Linear { parts, out, .. } => (parts, None, *out),
        Op::ExpertLinear { parts, choice, out, .. } => (parts, *choice, *out),
        _ => return vec![],
    };
    let mut offset = 0;
    let mut of = |part: &Projection| {
        let Weight { experts, rows, .. } = program.weights[part.weight];
        let width = experts_used(choice, experts) * rows;
        offset += width;
        Output { weight: part.weight, choice, out: out.part(offset - width, width) }
    };
    parts.iter().map(&mut of).collect()
}

/// Where adapters add something to gathered rows, their scales are gathered too.
fn keep_scales(nodes: &mut [Node], scales: View) {
    let Some(gather) = nodes.iter().position(|node| matches!(node.op, Op::Gather { .. })) else { return };
    let (before, after) = nodes.split_at_mut(gather + 1);
    if let Op::Gather { views } = &mut before[gather].op
        && after.iter().any(|node| node.op.inputs().contains(&scales))
    {
        views.push(scales);
    }
}
