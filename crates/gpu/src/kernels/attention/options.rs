//! Attention with any of its options in the plainest way, where it is not in halves.

use gleed_model::arithmetic::alibi_slope;
use gleed_model::program;

use super::{Attention, quads_of_values};
use crate::kernels::{Dispatch, Grid, List};
use crate::launch::{Buffer, Kernels};
use crate::step::pages_word;
use crate::template::expand;

/// Attention with any of its options, of one row and head for each workgroup.
pub(super) fn with_options(kernels: &mut Kernels, step: Buffer, list: List, op: Attention) -> Dispatch {
    let program::Attention { heads, causal, window, chunk, soft_cap, alibi, .. } = op.op;
    let unrolled = op
        .unrolled()
        .list("FOUR", ["x", "y", "z", "w"])
        .switch("CAUSAL", causal)
        .switch("BOTHWAYS", !causal)
        .switch("CAPPED", soft_cap.is_some())
        .switch("FADING", alibi.is_some())
        .switch("SINKS", op.sinks.is_some())
        .switch("CHOSEN", op.chosen.is_some())
        .switch("ALL", op.chosen.is_none());
    let text = [include_str!("key_unit.wgsl"), include_str!("options.wgsl")].concat();
    let (quads, element) = quads_of_values(op.cache.kind);
    let source = op
        .source("attention with options", &expand(&text, &unrolled))
        .rows(step, list)
        .snippet(quads)
        .size("VALUE_QUADS", op.cache.shape.value_dim.div_ceil(4))
        .size("CACHE_PAGES", pages_word(op.cache.group))
        .size("WINDOW", window.unwrap_or(u32::MAX as usize))
        .size("CHUNK", chunk.unwrap_or(u32::MAX as usize))
        .read_place("query", "QUERY_", op.query)
        .read("keys", "vec4<u32>", op.cache.keys)
        .read("values", element, op.cache.values)
        .write_place("out", "OUT_", op.out);
    let source = match soft_cap {
        Some(cap) => source.float("FACTOR", cap).snippet(include_str!("../../common/map_soft_cap.wgsl")),
        None => source,
    };
    let source = match alibi {
        Some(largest) => source.snippet(&slopes(largest, heads, |slope| slope)),
        None => source,
    };
    let source = match op.sinks {
        Some(sinks) => source.read("sinks", "f32", sinks),
        None => source,
    };
    let source = match op.chosen {
        Some(chosen) => source.size("COUNT", chosen.width).read_place("chosen", "CHOSEN_", chosen),
        None => source,
    };
    kernels.dispatch(source, Grid::Rows(heads as u32))
}

/// The function `slope`: what a head's scores lose for every position of distance, as they are counted.
pub(super) fn slopes(largest: f32, heads: usize, counted: impl Fn(f32) -> f32) -> String {
    let each = (0..heads).map(|head| {
        let slope = counted(alibi_slope(largest, head, heads));
        format!("        case {head}u: {{ return {slope:?}; }}\n")
    });
    let cases: String = each.collect();
    format!(
        "fn slope(head: u32) -> f32 {{\n    switch head {{\n{cases}        default: {{ return 0.0; }}\n    }}\n}}\n"
    )
}
