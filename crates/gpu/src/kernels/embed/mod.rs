//! Embeddings: a table's entries by token or by position, or its first one.

use super::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::linear::PackedWeight;
use crate::step::CHAINED;

/// What picks the entry of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// Its token; the entry is written.
    Token = 0,
    /// Its position; the entry is added.
    Position = 1,
    /// Nothing: the first entry is added.
    Nothing = 2,
}

/// One dispatch for each piece that the table had to be cut into. Tokens that the device chose itself are
/// in `chosen`.
pub(crate) fn embed(
    kernels: &mut Kernels,
    step: Buffer,
    list: List,
    table: &PackedWeight,
    chosen: Buffer,
    index: Index,
    out: Place,
) -> Vec<Dispatch> {
    let groups = table.packing().groups();
    let dispatches = table.pieces().iter().map(|piece| {
        let source = Source::new("embed", include_str!("embed.wgsl"))
            .known_rows(step, list)
            .matrix(table, piece)
            .size("FIELD", index as usize)
            .flag("FIXED", index == Index::Nothing)
            .flag("ADD", index != Index::Token)
            .size("WIDTH", out.width)
            .size("FIRST", piece.rows.start)
            .size("COUNT", piece.rows.len())
            .size("CHAINED", CHAINED as usize)
            .read("chosen", "u32", chosen)
            .write_place("out", "", out);
        kernels.dispatch(source, Grid::Rows(groups.div_ceil(32) as u32))
    });
    dispatches.collect()
}
