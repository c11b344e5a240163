//! MiMo V2: most layers see a window, with rotary frequencies and a number of key heads of their own and with sinks; heads
//! of values are narrower than those of keys, and what attention gives has a factor. Experts are chosen by sigmoid, in
//! the layers that have them.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts};
use crate::program::Map;
use crate::rope::{Pairing, Rope};
use crate::routing::Gate;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(c.rope_base);
    let near = b.add_rope(Rope::new(Pairing::SplitHalf, c.rope_dimensions, base, &c.rope_scaling, None)?);
    let window = b.keys.required("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(c.layers, 1)?;
    let factor = b.keys.f32("attention.value_scale")?.filter(|factor| *factor != 0.0).unwrap_or(1.0);
    // Tensors tell which layers have experts, whatever the file says about the first ones.
    let read = Experts::required(b.keys, c.feed_forward)?;
    let experts =
        Experts { gate: Gate::Sigmoid, normalised: true, first_layer: 0, where_given: true, ..read };
    let decoder = Decoder { experts: Some(experts), ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, c.layers, |b, layer, h| {
        let fused_qkv = b.has(&format!("blk.{layer}.attn_qkv.weight"));
        let sinks = b.has(&format!("blk.{layer}.attn_sinks.weight"));
        let (rope, window) = if windowed[layer] { (near, Some(window)) } else { (whole, None) };
        let style = AttentionStyle { fused_qkv, sinks, rope: Some(rope), window, ..Default::default() };
        let y = b.attention(style, h, decoder.qkv_bias)?;
        b.map("attn_value_scale", Map::Scale(factor), y);
        Ok(y)
    })?;
    b.head(h)?;
    Ok(())
}
