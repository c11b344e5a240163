//! GPT-OSS: experts with biases and a bounded SwiGLU, chosen by their scores; a sink for every head; a window in every
//! other layer.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::program::Activation;
use crate::rope::Pairing;
use crate::routing::Gate;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(b.config.layers, 2)?;
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    let experts = Experts { gate: Gate::SoftmaxOfChosen, normalised: false, ..experts };
    let style = AttentionStyle { rope: Some(rope), sinks: true, ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder {
        qkv_bias: Bias::Required,
        ffn_norm: "post_attention_norm.weight",
        activation: Activation::ClampedSwiglu,
        experts: Some(experts),
        ..Decoder::default()
    };
    let h = decoder
        .layers(b, x, |layer| AttentionStyle { window: window.filter(|_| windowed[layer]), ..style })?;
    b.head(h)?;
    Ok(())
}
