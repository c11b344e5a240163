//! Nemotron-H: one mixer in each layer, which is Mamba 2, attention without positions, or feed-forward with a squared
//! ReLU. Feed-forward widths and key heads, listed by layer, tell which. As `nemotron_h_moe` its feed-forward layers
//! are experts without gates, which may be narrower than what they read and give.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::program::{Activation, View};
use crate::routing::Gate;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    layers(b, |b, h| b.feed_forward(Activation::SquaredRelu, h, Bias::Optional))
}

/// Experts are chosen by sigmoid and a bias of the choice, and one is used by every row.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let read = Experts::required(b.keys, b.config.feed_forward)?;
    let latent = b.keys.size("moe_latent_size")?.filter(|size| *size > 0);
    let experts = Experts { gate: Gate::Sigmoid, gated: false, latent, ..read };
    layers(b, |b, h| b.experts(&experts, Activation::SquaredRelu, h))
}

fn layers(b: &mut Builder, feed_forward: impl Fn(&mut Builder, View) -> Result<View>) -> Result<()> {
    let sizes = b.state_space()?;
    let scale = b.keys.f32("attention.scale")?.filter(|scale| *scale != 0.0);
    let style = AttentionStyle { scale, ..AttentionStyle::default() };
    let x = b.embed()?;
    let c = b.config;
    for layer in 0..c.layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let width = c.layer_feed_forward.get(layer).copied().unwrap_or(0);
        let y = match (width, c.layer_kv_heads[layer]) {
            (0, 0) => b.mamba2(sizes, h)?,
            (0, _) => b.attention(style, h, Bias::Optional)?,
            _ => feed_forward(b, h)?,
        };
        b.add("residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
