//! What must hold of ops that know of adapters.

use super::{ensure, used_of, weight_of};
use crate::program::{LowRank, Program, View};

/// A scale for each adapter.
pub(super) fn scales_of(program: &Program, scales: View) -> Result<(), String> {
    let adapters = program.adapters.len();
    ensure(scales.width == adapters, || format!("{} scales for {adapters} adapters", scales.width))
}

/// What adapters add to x, from what their lower matrices gave.
pub(super) fn parts_of(
    program: &Program,
    parts: &[LowRank],
    choice: Option<View>,
    input: View,
    x: View,
) -> Result<(), String> {
    let first = parts.first().ok_or("there is nothing to add")?;
    let (experts, outputs) = weight_of(program, first.up).map(|up| (up.experts, up.columns))?;
    let used = choice.map_or(Ok(experts), used_of)?;
    ensure(used * outputs == x.width, || format!("{used} times {outputs} outputs for {}", x.width))?;
    let mut hidden = 0;
    for LowRank { adapter, up, .. } in parts {
        let up = weight_of(program, *up)?;
        ensure(*adapter < program.adapters.len(), || format!("there is no adapter {adapter}"))?;
        ensure((up.experts, up.columns) == (experts, outputs), || format!("{} has another shape", up.name))?;
        hidden += used * up.rows;
    }
    ensure(hidden == input.width, || format!("{hidden} ranks for {} columns", input.width))
}
