//! What a program must be to run here, and what is known of it before it is planned.

use std::collections::BTreeSet;

use gleed_model::program::{self, Op, Output, Program, View};
use gleed_model::verify::{Misfit, verify};

use crate::kernels::attention::{self, QueryTiling};
use crate::{Error, Facts, Result};

/// Checks everything that running a program relies on.
pub(crate) fn check(program: &Program) -> Result<()> {
    verify(program).map_err(|Misfit { node, kind, what }| Error::Program { node, kind, what })?;
    let refuse = |node: usize, what: &str| {
        let kind = program.nodes.get(node).map_or("logits", |node| node.op.kind());
        Err(Error::Program { node, kind, what: what.to_string() })
    };
    let gathers = |(_, node): &(usize, &program::Node)| node.op.gathers();
    if let Some((second, _)) = program.nodes.iter().enumerate().filter(gathers).nth(1) {
        return refuse(second, "rows are gathered a second time");
    }
    if program.output != Output::Logits {
        // Few columns, which are read back all at once.
        let last = head(program) + 1 == program.nodes.len();
        return if last { Ok(()) } else { refuse(program.nodes.len(), "the last node must write them") };
    }
    // Logits are computed and read back some rows at a time, so nothing else may touch them.
    let head = head(program);
    let writes_logits = |op: &Op| matches!(op, Op::Linear { out, .. } if *out == program.logits);
    let changes_logits =
        |op: &Op| matches!(op, Op::Map { x, .. } | Op::AddLowRank { x, .. } if *x == program.logits);
    if !program.nodes.get(head).is_some_and(|node| writes_logits(&node.op))
        || !program.nodes[head + 1..].iter().all(|node| changes_logits(&node.op))
    {
        return refuse(
            head,
            "the last node must be the linear op that writes the logits, but for what changes them",
        );
    }
    if program.buffers[program.logits.buffer].width != program.logits.width {
        return refuse(program.nodes.len(), "the logits must have a buffer of their own");
    }
    let touches = |views: Vec<View>| views.iter().any(|view| view.buffer == program.logits.buffer);
    for (index, node) in program.nodes[..=head].iter().enumerate() {
        if touches(node.op.inputs()) || index < head && touches(node.op.outputs()) {
            return refuse(index, "only the last nodes may use the buffer of the logits");
        }
    }
    Ok(())
}

/// The node that writes the logits; those after it change them value by value. Of an embedding it is the last that
/// does.
pub(crate) fn head(program: &Program) -> usize {
    let writes = |node: &program::Node| node.op.outputs().contains(&program.logits);
    let node = match program.output {
        Output::Logits => program.nodes.iter().position(writes),
        Output::Embedding(_) => program.nodes.iter().rposition(writes),
    };
    node.unwrap_or(program.nodes.len())
}

/// The buffers that the logits are computed from, in the node that writes them and in those after it.
pub(crate) fn logits_inputs(program: &Program) -> BTreeSet<usize> {
    let nodes = program.nodes.get(head(program)..).unwrap_or_default();
    let buffers = nodes.iter().flat_map(|node| node.op.inputs()).map(|view| view.buffer);
    buffers.filter(|buffer| *buffer != program.logits.buffer).collect()
}

/// The views that the program gathers.
pub(crate) fn gathered(program: &Program) -> &[View] {
    let views = program.nodes.iter().find_map(|node| match &node.op {
        Op::Gather { views } => Some(&views[..]),
        Op::Pool { x } => Some(std::slice::from_ref(x)),
        _ => None,
    });
    views.unwrap_or(&[])
}

/// Neighbouring rows of a sequence that one workgroup of attention takes, in all of a program's layers, and
/// values of one row's partial result.
pub(crate) fn attention_tiles(facts: &Facts, program: &Program) -> (usize, usize) {
    let ops = program.nodes.iter().filter_map(|node| match node.op {
        Op::Attention { attention, .. } => Some((program.caches[attention.cache], attention.heads)),
        _ => None,
    });
    ops.fold((usize::MAX, 0), |(rows, room), (cache, heads)| {
        let tiling = QueryTiling::new(facts, heads / cache.heads);
        (rows.min(tiling.rows), room.max(heads * attention::partial_room(cache.value_dim)))
    })
}
