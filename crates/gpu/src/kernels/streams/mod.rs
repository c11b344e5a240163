//! Several residual streams, rows that are blended, and what goes with them: plain, a thread for each column or a workgroup for each row.

use super::{Dispatch, Grid, Place, Source};
use crate::launch::{Buffer, Kernels};

/// Each stream and all of them times its coefficients.
pub(crate) fn mix(kernels: &mut Kernels, [coefficients, input, out]: [Place; 3]) -> Dispatch {
    let streams = coefficients.width.isqrt();
    let source = Source::new("mix_streams", include_str!("mix_streams.wgsl"))
        .size("STREAMS", streams)
        .size("WIDTH", out.width / streams)
        .read_place("coefficients", "COEFFICIENTS_", coefficients)
        .read_place("source", "SOURCE_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// Each stream, moved by how far the first one is from the truth.
pub(crate) fn correct(kernels: &mut Kernels, [coefficients, truth, input, out]: [Place; 4]) -> Dispatch {
    let source = Source::new("correct_streams", include_str!("correct_streams.wgsl"))
        .size("STREAMS", coefficients.width)
        .size("WIDTH", truth.width)
        .read_place("coefficients", "COEFFICIENTS_", coefficients)
        .read_place("truth", "TRUTH_", truth)
        .read_place("source", "SOURCE_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// x, moved towards y with each row of shares.
pub(crate) fn blend(kernels: &mut Kernels, shares: Buffer, [x, y, out]: [Place; 3]) -> Dispatch {
    let source = Source::new("blend", include_str!("blend.wgsl"))
        .size("WIDTH", out.width)
        .size("PART", x.width)
        .read("shares", "f32", shares)
        .read_place("x", "X_", x)
        .read_place("y", "Y_", y)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// out = Σ x · y of each head.
pub(crate) fn dot(kernels: &mut Kernels, heads: usize, [x, y, out]: [Place; 3]) -> Dispatch {
    let source = Source::new("dot", include_str!("dot.wgsl"))
        .size("HEADS", heads)
        .size("WIDTH", x.width / heads)
        .read_place("x", "X_", x)
        .read_place("y", "Y_", y)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(heads.div_ceil(64) as u32))
}

/// What lies above the mean by more than some standard deviations.
pub(crate) fn sparsify(kernels: &mut Kernels, spread: f32, x: Place) -> Dispatch {
    let source = Source::new("sparsify", include_str!("sparsify.wgsl"))
        .size("WIDTH", x.width)
        .float("SPREAD", spread)
        .float("INVERSE_WIDTH", 1.0 / x.width as f32)
        .float("FEWER", x.width as f32 - 1.0)
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(1))
}

/// out = input · weight, column by column.
pub(crate) fn scale_columns(kernels: &mut Kernels, weight: Buffer, input: Place, out: Place) -> Dispatch {
    let source = Source::new("scale_columns", include_str!("scale_columns.wgsl"))
        .size("WIDTH", out.width)
        .read("weight", "f32", weight)
        .read_place("source", "SOURCE_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}
