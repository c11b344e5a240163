//! LFM2: Llama's decoder with head norms, in most of whose layers a short convolution between two gates stands in the
//! place of attention. A layer without key heads is one of those. As `lfm2moe` it has experts in all but the first
//! layers.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    decoder(b, None)
}

/// Weights of experts are divided by their sum.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    let normalised = b.keys.bool("expert_weights_norm")?.unwrap_or(true);
    decoder(b, Some(Experts { normalised, ..experts }))
}

fn decoder(b: &mut Builder, experts: Option<Experts>) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?;
    let taps = b.keys.required("shortconv.l_cache")?;
    let style =
        AttentionStyle { rope: Some(rope), norms: QueryNorms::Heads, window, ..AttentionStyle::default() };
    let decoder = Decoder { output_norm: "token_embd_norm", experts, ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, b.config.layers, |b, layer, h| match b.config.layer_kv_heads[layer] {
        0 => b.short_convolution(taps, h),
        _ => b.attention(style, h, decoder.qkv_bias),
    })?;
    b.head(h)?;
    Ok(())
}
