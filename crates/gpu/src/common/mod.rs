//! Texts that kernels of several kinds have.

use gleed_model::program::Activation;

/// The functions `activation` and, with up, `activated`, and what they call.
pub(crate) fn activation(activation: Activation) -> String {
    let function = match activation {
        Activation::Silu => include_str!("activation_silu.wgsl"),
        Activation::Gelu => include_str!("activation_gelu.wgsl"),
        Activation::ExactGelu => include_str!("activation_exact_gelu.wgsl"),
        Activation::SquaredRelu => include_str!("activation_squared_relu.wgsl"),
        Activation::Sigmoid => include_str!("activation_sigmoid.wgsl"),
        Activation::Softplus => {
            concat!(include_str!("softplus.wgsl"), include_str!("activation_softplus.wgsl"))
        }
        Activation::Identity => include_str!("activation_identity.wgsl"),
        Activation::ClampedSwiglu => include_str!("activation_clamped_swiglu.wgsl"),
    };
    let activated = match activation {
        Activation::ClampedSwiglu => "",
        _ => include_str!("activated.wgsl"),
    };
    [include_str!("exp.wgsl"), function, activated].concat()
}
