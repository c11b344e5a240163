//! Embeddings: a table's entries by token or by position.

use super::{Dispatch, Grid, Kernels, List, Place, Source};
use crate::Result;
use crate::weights::Matrix;

/// What picks the entry of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// Its token; the entry is written.
    Token = 0,
    /// Its position; the entry is added.
    Position = 1,
}

/// One dispatch for each part that the table had to be cut into.
pub(crate) fn embed(
    kernels: &mut Kernels,
    step: &wgpu::Buffer,
    list: List,
    table: &Matrix,
    index: Index,
    out: Place,
) -> Result<Vec<Dispatch>> {
    let dispatches = table.parts.iter().map(|part| {
        let source = Source::new("embed", include_str!("embed.wgsl"))
            .step(step, list)
            .size("FIELD", index as usize)
            .flag("ADD", index == Index::Position)
            .size("WIDTH", out.width)
            .size("FIRST", part.first)
            .size("COUNT", part.count)
            .snippet(
                "fn table_value(entry: u32, column: u32) -> f32 { return table[entry * WIDTH + column]; }\n",
            )
            .read("table", "f32", &part.buffer)
            .write_place("out", "", out);
        kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
    });
    dispatches.collect()
}
