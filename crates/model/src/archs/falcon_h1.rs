//! Falcon-H1: attention and Mamba 2 side by side in every layer, both on the same normed input.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let sizes = b.state_space()?;
    let scale = b.keys.f32("attention.scale")?.filter(|scale| *scale != 0.0);
    let style = AttentionStyle { rope: Some(rope), scale, ..AttentionStyle::default() };
    // Files have this tensor without the usual ending.
    let decoder = Decoder { ffn_norm: "ffn_norm", ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, b.config.layers, |b, _, h| {
        let y = b.attention(style, h, decoder.qkv_bias)?;
        b.add("attn_add", x, y);
        b.mamba2(sizes, h)
    })?;
    b.head(h)?;
    Ok(())
}
