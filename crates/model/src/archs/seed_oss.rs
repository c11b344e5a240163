//! Seed-OSS: Llama's decoder with split-half rotary pairs and wide heads; the norm before feed-forward is called after
//! attention.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder { ffn_norm: "post_attention_norm.weight", ..Decoder::default() };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
