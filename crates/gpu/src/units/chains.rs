//! What the kernels on matrix units for linear layers and for experts share: how rows are multiplied with two tiles of
//! outputs, in chains of units of columns.

use super::fragments::LANES;
use crate::template::{Values, expand};

/// How a workgroup cuts its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chains {
    /// Rows of a tile: one, eight, or a multiple of 16.
    pub rows: usize,
    /// Subgroups that share the segments of each block of outputs, and such blocks.
    pub split: usize,
    pub across: usize,
    /// Those blocks have a row of halves each, which begins at `row_at`; otherwise one row is that of all.
    pub rows_apart: bool,
    /// The tiles are of two matrices instead of neighbours in one.
    pub paired: bool,
    pub loading: Loading,
}

/// How a subgroup loads what it multiplies next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loading {
    /// Groups of columns that are loaded ahead, up to four.
    pub ahead: usize,
    /// Loops are written out, or left to the device's compiler.
    pub written_out: bool,
}

impl Loading {
    /// What leaves registers for the most subgroups, as measured on an H200, with tiles of `rows` rows whose segments are
    /// shared by `split` subgroups.
    pub fn of(rows: usize, split: usize) -> Loading {
        let (ahead, written_out) = match (rows, split) {
            (..=8, _) => (4, true),
            (32, 1 | 5..) => (2, false),
            _ => (1, true),
        };
        Loading { ahead, written_out }
    }

    /// The same, but with loops unless a device's compiler is one to write them out for.
    pub fn written_out_if(self, written_out: bool) -> Loading {
        Loading { written_out: self.written_out && written_out, ..self }
    }
}

impl Chains {
    /// Threads of a workgroup.
    pub fn threads(self) -> usize {
        LANES * self.split * self.across
    }

    /// Adds what the chains are made of, but for `UNITCOUNT` and what [`with_chains`] is told. `OWNROW` says that there is
    /// one row, which a kernel has put into `row_halves`.
    pub fn sizes(self, values: Values) -> Values {
        let Chains { rows, split, across, rows_apart, paired, loading: Loading { ahead, written_out } } =
            self;
        let threads = self.threads();
        let fragments = rows.div_ceil(16);
        let elements = match rows {
            1 => 1,
            8 => 2,
            _ => 4,
        };
        // Of few rows lanes have nothing in half of their sums.
        let one_side = rows <= 8;
        let fragment_parts = 2 * elements * LANES;
        let tile_parts = across * fragments * 2 * fragment_parts;
        let all = ["0u", "1u", "2u", "3u"];
        let (first, groups) =
            if written_out { (&all[..ahead], &all[..]) } else { (&["turn"][..], &["turn"][..]) };
        let turns = |turns: usize| format!("{}u", if written_out { 1 } else { turns });
        values
            .list("GROUPS", groups)
            .list("FIRSTGROUPS", first)
            .set("TURNS", turns(4))
            .set("FIRSTTURNS", turns(ahead))
            .set("AHEAD", format!("{ahead}u"))
            .list("INPUTSIDES", if one_side { &["near"][..] } else { &["near", "far"] })
            .switch("ONESIDE", one_side)
            .switch("OWNROW", rows == 1)
            .set("OWNROWAT", if rows_apart { "row_at + " } else { "" })
            .switch("SHARED", split > 1 || rows == 1)
            .list("TWO", 0..2)
            .list("FOUR", 0..4)
            .list("ROWFRAGMENTS", 0..fragments)
            .set("ROWFRAGMENTCOUNT", format!("{fragments}u"))
            .list("ELEMENTS", (0..elements).map(|e| format!("{e}u")))
            .list("ENTRIES", 0..(tile_parts / 2).div_ceil(threads))
            .set("SIDEPARTS", format!("{}u", LANES * elements))
            .set("FRAGMENTPARTS", format!("{fragment_parts}u"))
            .set("TILEPARTS", format!("{tile_parts}u"))
            .set("PARTS", split * tile_parts)
            .set("SPLIT", format!("{split}u"))
            .set("ACROSS", format!("{across}u"))
            .set("TILEROWS", format!("{rows}u"))
            .set("OWNOUTPUTS", format!("{}u", if paired { 16 } else { 32 }))
            .set("SECONDTILE", if paired { "0u" } else { "16u" })
            .set("THREADS", threads)
            .set("ALLTHREADS", format!("{threads}u"))
    }
}

/// A kernel in which the chains stand where it names them, of tiles of these matrices.
pub(crate) fn with_chains(kernel: &str, values: Values, [first, second]: [char; 2]) -> String {
    let values = values.set("FIRSTMATRIX", first).set("SECONDMATRIX", second);
    let text = |template| expand(template, &values).trim_end().to_string();
    let values = values
        .clone()
        .set("CHAINS", text(include_str!("chains.wgsl")))
        .set("CHAINSBEGIN", text(include_str!("chains_begin.wgsl")))
        .set("CHAINSLOOP", text(include_str!("chains_loop.wgsl")));
    expand(kernel, &values)
}
