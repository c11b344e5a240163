//! Ops on whole rows: the residual sum, functions of single values, and the gathering of wanted rows.

use gleed_model::arithmetic::Xielu;
use gleed_model::program::Map;

use super::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};

/// x += y.
pub(crate) fn add(kernels: &mut Kernels, x: Place, y: Place) -> Dispatch {
    let source = Source::new("add", include_str!("add.wgsl"))
        .size("WIDTH", x.width)
        .read_place("y", "Y_", y)
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}

/// out = input less its mean, in each head of each row.
pub(crate) fn center(kernels: &mut Kernels, heads: usize, input: Place, out: Place) -> Dispatch {
    let width = out.width / heads;
    let source = Source::new("center", include_str!("center.wgsl"))
        .size("WIDTH", width)
        .float("INVERSE_WIDTH", 1.0 / width as f32)
        .read_place("source", "SOURCE_", input)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(heads as u32))
}

/// x = map(x), value by value.
pub(crate) fn map(kernels: &mut Kernels, map: Map, x: Place) -> Dispatch {
    let (function, numbers) = match map {
        Map::Scale(factor) => (include_str!("map_scale.wgsl"), vec![("FACTOR", factor)]),
        Map::SoftCap(cap) => (include_str!("../../common/map_soft_cap.wgsl"), vec![("FACTOR", cap)]),
        Map::AtMost(limit) => (include_str!("map_at_most.wgsl"), vec![("FACTOR", limit)]),
        Map::Within(limit) => (include_str!("map_within.wgsl"), vec![("FACTOR", limit)]),
        Map::Kept(rate) => (include_str!("map_kept.wgsl"), vec![("RATE", rate)]),
        Map::Xielu(Xielu { above, below, slope }) => {
            (include_str!("map_xielu.wgsl"), vec![("ABOVE", above), ("BELOW", below), ("SLOPE", slope)])
        }
    };
    let source = Source::new("map", include_str!("map.wgsl"))
        .snippet(include_str!("../../common/exp.wgsl"))
        .snippet(function)
        .size("WIDTH", x.width)
        .write_place("x", "X_", x);
    let source = numbers.into_iter().fold(source, |source, (name, number)| source.float(name, number));
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}

/// The wanted rows of `from`, one after the other in `to`.
pub(crate) fn gather(kernels: &mut Kernels, step: Buffer, from: Place, to: Buffer) -> Dispatch {
    wanted(kernels, step, "gather", include_str!("gather.wgsl"), from, to)
}

/// The means of the wanted rows' sequences, one after the other in `to`.
pub(crate) fn pool(kernels: &mut Kernels, step: Buffer, from: Place, to: Buffer) -> Dispatch {
    wanted(kernels, step, "pool", include_str!("pool.wgsl"), from, to)
}

/// What makes one row of each wanted one.
fn wanted(
    kernels: &mut Kernels,
    step: Buffer,
    name: &'static str,
    text: &str,
    from: Place,
    to: Buffer,
) -> Dispatch {
    let source = Source::new(name, text)
        .rows(step, List::Wanted)
        .size("WIDTH", from.width)
        .read_place("source", "", from)
        .write("out", "f32", to);
    kernels.dispatch(source, Grid::Rows(from.width.div_ceil(256) as u32))
}
