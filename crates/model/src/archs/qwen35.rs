//! Qwen3-Next and Qwen 3.5: the gated delta rule in three of four layers, and in the fourth attention whose result is multiplied with
//! a gate that lies beside each query head.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, OutputGate, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    decoder(b, None, false)
}

/// Experts, and one behind a gate that every row uses.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    decoder(b, Some(experts), false)
}

/// The same, with the two gates of the delta rule in one tensor.
pub(super) fn next(b: &mut Builder) -> Result<()> {
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    decoder(b, Some(experts), true)
}

fn decoder(b: &mut Builder, experts: Option<Experts>, together: bool) -> Result<()> {
    b.keys.sections_of_text()?;
    let rope = b.rope(Pairing::SplitHalf)?;
    let sizes = b.state_space()?;
    let layers = b.config.layers;
    let recurrent = b.keys.recurrent_layers(layers)?;
    let style = AttentionStyle {
        rope: Some(rope),
        norms: QueryNorms::Heads,
        gate: OutputGate::BesideQueries,
        ..AttentionStyle::default()
    };
    let decoder = Decoder { ffn_norm: "post_attention_norm.weight", experts, ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, layers, |b, layer, h| match recurrent[layer] {
        true => b.delta_net(sizes, together, h),
        false => b.attention(style, h, decoder.qkv_bias),
    })?;
    b.head(h)?;
    Ok(())
}
