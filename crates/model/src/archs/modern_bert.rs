//! ModernBERT, also as Granite's embedding models have it: rotary positions, windows in two of three layers with
//! frequencies of their own, norms without biases before each half of a layer (the first begins without one), and gate
//! and up in one tensor.

use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::{Activation, Pooling};
use crate::rope::{Pairing, Rope, Scaling};
use crate::{Error, Result};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let near = b.add_rope(Rope::new(Pairing::SplitHalf, c.rope_dimensions, base, &Scaling::None, None)?);
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0);
    let windowed = b.keys.windowed_after_first(c.layers, 3)?;
    let activation = match b.keys.str("hidden_activation")? {
        None | Some("gelu" | "geglu") => Activation::ExactGelu,
        Some("silu" | "swish" | "swiglu") => Activation::Silu,
        Some(other) => {
            return Err(Error::Invalid(format!("hidden_activation {other} is not known; known: gelu, silu")));
        }
    };
    let x = b.embed()?;
    let h = b.buffer("h", c.width);
    b.bare_layer_norm("token_embd_norm", x, x)?;
    for (layer, windowed) in windowed.into_iter().enumerate() {
        b.enter(layer);
        let window = window.filter(|_| windowed);
        let rope = Some(if window.is_some() { near } else { whole });
        let style =
            AttentionStyle { fused_qkv: true, rope, window, both_ways: true, ..AttentionStyle::default() };
        let input = if b.has(&format!("blk.{layer}.attn_norm.weight")) || layer > 0 {
            b.bare_layer_norm("attn_norm", x, h)?;
            h
        } else {
            x
        };
        let y = b.attention(style, input, Bias::Optional)?;
        b.add("attn_residual", x, y);
        b.bare_layer_norm("ffn_norm", x, h)?;
        let y = b.fused_feed_forward(activation, h)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    b.bare_layer_norm("output_norm", x, h)?;
    let pooling = b.keys.pooling()?.unwrap_or(Pooling::Mean);
    b.pool(pooling, h);
    Ok(())
}
