//! Qwen3, its mixture of experts, and the text side of Qwen3-VL: Llama's decoder with split-half rotary pairs and a
//! norm on each head of Q and K.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), norms: QueryNorms::Heads, ..AttentionStyle::default() };
    let x = b.embed()?;
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}

/// Text has the same position in all sections of a head, and nothing to add to the first layers.
pub(super) fn vision(b: &mut Builder) -> Result<()> {
    b.keys.sections_of_text()?;
    b.keys.ignore("n_deepstack_layers");
    build(b)
}
