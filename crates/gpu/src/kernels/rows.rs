//! Ops on whole rows: the residual sum, the gathering of wanted rows, and the choice of the likeliest token.

use gleed_model::choice::NO_TOKEN;

use super::{Dispatch, Grid, Kernels, List, Place, Source};
use crate::Result;

/// x += y.
pub(crate) fn add(kernels: &mut Kernels, x: Place, y: Place) -> Result<Dispatch> {
    let source = Source::new("add", include_str!("add.wgsl"))
        .size("WIDTH", x.width)
        .read_place("y", "Y_", y)
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}

/// The wanted rows of `from`, one after the other in `to`.
pub(crate) fn gather(
    kernels: &mut Kernels,
    step: &wgpu::Buffer,
    from: Place,
    to: &wgpu::Buffer,
) -> Result<Dispatch> {
    let source = Source::new("gather", include_str!("gather.wgsl"))
        .step(step, List::Wanted)
        .size("WIDTH", from.width)
        .read_place("source", "", from)
        .write("out", "f32", to);
    kernels.dispatch(source, Grid::Rows(from.width.div_ceil(256) as u32))
}

/// The column of each row's largest value.
pub(crate) fn argmax(kernels: &mut Kernels, logits: Place, chosen: &wgpu::Buffer) -> Result<Dispatch> {
    let source = Source::new("argmax", include_str!("argmax.wgsl"))
        .snippet(include_str!("key.wgsl"))
        .size("WIDTH", logits.width)
        .size("NO_TOKEN", NO_TOKEN as usize)
        .read_place("logits", "", logits)
        .write("chosen", "u32", chosen);
    kernels.dispatch(source, Grid::Rows(1))
}
