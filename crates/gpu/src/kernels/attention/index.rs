//! The choice of the positions that rows see, by an indexer: a workgroup scores all positions of a row and chooses among
//! them. Up to `MOST_ROWS` rows at once have memory for their scores; with more, a workgroup takes one after the other.

use gleed_model::program::{Op, Program};

use super::Attention;
use crate::kernels::{Dispatch, Grid, List, Place};
use crate::launch::{Buffer, Kernels};
use crate::step::pages_word;
use crate::template::expand;

/// Bytes of scores, where a row does not need more.
const SCORE_BYTES: usize = 32 << 20;

/// The most rows at once.
const MOST_ROWS: usize = 64;

/// How many rows have memory for scores at once.
fn rows(context: usize) -> usize {
    (SCORE_BYTES / (4 * context.max(1))).clamp(1, MOST_ROWS)
}

/// Bytes of scores of a program: none without an indexer.
pub(crate) fn bytes(program: &Program) -> u64 {
    let chooses = program.nodes.iter().any(|node| matches!(node.op, Op::Choose { .. }));
    if chooses { 4 * (rows(program.context) as u64).saturating_mul(program.context as u64) } else { 0 }
}

/// out = the positions with the largest scores, in ascending order. `op` is attention of the indexer's queries over its
/// keys.
pub(crate) fn choose(
    kernels: &mut Kernels,
    step: Buffer,
    list: List,
    op: Attention,
    weights: Place,
    (context, scores): (usize, Buffer),
) -> Dispatch {
    let text = [include_str!("key_unit.wgsl"), include_str!("choose_positions.wgsl")].concat();
    let unrolled = op.unrolled().list("FOUR", ["x", "y", "z", "w"]);
    let source = op
        .source("choice of positions", &expand(&text, &unrolled))
        .rows(step, list)
        .size("CACHE_PAGES", pages_word(op.cache.group))
        .size("COUNT", op.out.width)
        .size("CONTEXT", context)
        .size("SLOTS", rows(context))
        .read_place("query", "QUERY_", op.query)
        .read_place("head_weights", "WEIGHTS_", weights)
        .read("keys", "vec4<u32>", op.cache.keys)
        .write("ordered", "u32", scores)
        .write_place("out", "OUT_", op.out);
    kernels.dispatch(source, Grid::Rows(1))
}
