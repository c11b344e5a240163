//! Linear layers over weights that were decoded to f32: one thread per output.

use super::{Dispatch, Grid, Kernels, Place, Source};
use crate::Result;
use crate::weights::Matrix;

/// out = matrix · input [+ bias], one dispatch for each part that the matrix had to be cut into.
pub(crate) fn linear(
    kernels: &mut Kernels,
    matrix: &Matrix,
    bias: Option<&wgpu::Buffer>,
    input: Place,
    out: Place,
) -> Result<Vec<Dispatch>> {
    let dispatches = matrix.parts.iter().map(|part| {
        let out = Place { offset: out.offset + part.first, ..out };
        let source = Source::new("linear", include_str!("plain_linear.wgsl"))
            .size("OUTPUTS", part.count)
            .size("FIRST", part.first)
            .size("COLUMNS", input.width)
            .flag("BIAS", bias.is_some())
            .read("matrix", "f32", &part.buffer)
            .read("bias", "f32", bias.unwrap_or(&part.buffer))
            .read_place("source", "SOURCE_", input)
            .write_place("out", "OUT_", out);
        kernels.dispatch(source, Grid::Rows(part.count.div_ceil(64) as u32))
    });
    dispatches.collect()
}
