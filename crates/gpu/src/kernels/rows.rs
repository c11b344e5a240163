//! Ops on whole rows: the residual sum and the gathering of wanted rows.

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
