//! RMS and layer norms of rows or of their heads, and of a sum.

use super::{Dispatch, Grid, Kernels, Place, Source};
use crate::Result;

/// The vectors of a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm<'a> {
    pub weight: &'a wgpu::Buffer,
    /// Layer norm has one, RMS norm has none.
    pub bias: Option<&'a wgpu::Buffer>,
    pub epsilon: f32,
}

/// out = norm(input) of each head, after input += addend where there is one.
pub(crate) fn norm(
    kernels: &mut Kernels,
    norm: Norm,
    heads: usize,
    input: Place,
    addend: Option<Place>,
    out: Place,
) -> Result<Dispatch> {
    let source = Source::new("norm", include_str!("norm.wgsl"))
        .size("WIDTH", out.width / heads)
        .float("EPSILON", norm.epsilon)
        .flag("LAYER", norm.bias.is_some())
        .flag("ADD", addend.is_some())
        .read("weight", "f32", norm.weight)
        .read("bias", "f32", norm.bias.unwrap_or(norm.weight))
        .write_place("out", "OUT_", out)
        .write_place("source", "SOURCE_", input)
        .read_place("addend", "ADDEND_", addend.unwrap_or(input));
    kernels.dispatch(source, Grid::Rows(heads as u32))
}
