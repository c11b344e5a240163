//! Activations of feed-forward layers, gated or not.

use gleed_model::program::Activation;

use super::{Dispatch, Grid, Place, Source};
use crate::common;
use crate::launch::Kernels;

/// out = activation(gate) · up, or activation(gate).
pub(crate) fn activate(
    kernels: &mut Kernels,
    activation: Activation,
    gate: Place,
    up: Option<Place>,
    out: Place,
) -> Dispatch {
    let source = Source::new("activate", include_str!("activate.wgsl"))
        .snippet(&common::activation(activation))
        .size("WIDTH", out.width)
        .flag("GATED", up.is_some())
        .read_place("gate", "GATE_", gate)
        .read_place("up", "UP_", up.unwrap_or(gate))
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}
