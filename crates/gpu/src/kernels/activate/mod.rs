//! Activations of feed-forward layers, gated or not.

use gleed_model::program::Activation;

use super::{Dispatch, Grid, Kernels, Place, Source};
use crate::Result;

/// The functions `activation` and, with up, `activated`, and what they call.
pub(crate) fn snippet(activation: Activation) -> String {
    let function = match activation {
        Activation::Silu => include_str!("activation_silu.wgsl"),
        Activation::Gelu => include_str!("activation_gelu.wgsl"),
        Activation::ExactGelu => include_str!("activation_exact_gelu.wgsl"),
        Activation::SquaredRelu => include_str!("activation_squared_relu.wgsl"),
        Activation::Sigmoid => include_str!("activation_sigmoid.wgsl"),
        Activation::Softplus => {
            concat!(include_str!("../common/softplus.wgsl"), include_str!("activation_softplus.wgsl"))
        }
        Activation::Identity => include_str!("activation_identity.wgsl"),
        Activation::ClampedSwiglu => include_str!("activation_clamped_swiglu.wgsl"),
    };
    let activated = match activation {
        Activation::ClampedSwiglu => "",
        _ => include_str!("activated.wgsl"),
    };
    [include_str!("../common/exp.wgsl"), function, activated].concat()
}

/// out = activation(gate) · up, or activation(gate).
pub(crate) fn activate(
    kernels: &mut Kernels,
    activation: Activation,
    gate: Place,
    up: Option<Place>,
    out: Place,
) -> Result<Dispatch> {
    let source = Source::new("activate", include_str!("activate.wgsl"))
        .snippet(&snippet(activation))
        .size("WIDTH", out.width)
        .flag("GATED", up.is_some())
        .read_place("gate", "GATE_", gate)
        .read_place("up", "UP_", up.unwrap_or(gate))
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}
