//! Adapters: how much of each a row takes, and what it adds.

use super::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};

/// out = how much of each adapter the row takes, which its words say from `first` on after the fixed ones.
pub(crate) fn scales(kernels: &mut Kernels, step: Buffer, list: List, first: usize, out: Place) -> Dispatch {
    let source = Source::new("adapter-scales", include_str!("adapter_scales.wgsl"))
        .known_rows(step, list)
        .size("FIRST_SCALE", first)
        .size("WIDTH", out.width)
        .write_place("out", "", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(64) as u32))
}

/// What an adapter adds to the outputs of a linear op.
pub(crate) struct Added {
    /// Its number.
    pub adapter: usize,
    /// What its scale is multiplied with.
    pub factor: f32,
    /// Its upper matrices, turned.
    pub up: Buffer,
    /// How many there are, their ranks and their outputs.
    pub sizes: [usize; 3],
    /// Which of them a row uses; all of them in order where nothing says.
    pub choice: Option<Place>,
    pub scales: Place,
    pub hidden: Place,
}

/// x += what an adapter adds.
pub(crate) fn add(kernels: &mut Kernels, added: &Added, x: Place) -> Dispatch {
    let Added { adapter, factor, up, sizes: [experts, rank, outputs], choice, scales, hidden } = *added;
    let source = Source::new("add-low-rank", include_str!("add_low_rank.wgsl"))
        .size("WIDTH", x.width)
        .size("ADAPTER", adapter)
        .float("FACTOR", factor)
        .size("EXPERTS", experts)
        .size("RANK", rank)
        .size("OUTPUTS", outputs)
        .flag("CHOSEN", choice.is_some())
        .read("up", "f32", up)
        .read_place("scales", "SCALES_", scales)
        .read_place("hidden", "HIDDEN_", hidden)
        .read_place("choice", "CHOICE_", choice.unwrap_or(scales))
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}
