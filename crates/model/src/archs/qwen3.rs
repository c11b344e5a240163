//! Qwen3, its mixture of experts, and the text side of Qwen3-VL: Llama's decoder with split-half rotary pairs and a
//! norm on each head of Q and K. Of this shape with DeepSeek's way of choosing experts are dots.llm1, Ling 2 and Hy3.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    decoder(b, false, experts)
}

/// Text has the same position in all sections of a head, and nothing to add to the first layers.
pub(super) fn vision(b: &mut Builder) -> Result<()> {
    b.keys.sections_of_text()?;
    b.keys.ignore("n_deepstack_layers");
    build(b)
}

/// dots.llm1.
pub(super) fn dots(b: &mut Builder) -> Result<()> {
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?;
    decoder(b, false, Some(experts))
}

/// Hy3.
pub(super) fn hunyuan3(b: &mut Builder) -> Result<()> {
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?.with_shared();
    // No key says which layers have none.
    decoder(b, false, Some(Experts { where_given: true, ..experts }))
}

/// Ling and Ring 2: Q, K and V in one tensor, and as many shared experts as the file says of the width that it says.
pub(super) fn ling(b: &mut Builder) -> Result<()> {
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?;
    let width = b.keys.width("expert_shared_feed_forward_length")?.filter(|width| *width > 0);
    let count = b.keys.width("expert_shared_count")?.unwrap_or(0);
    let shared = count * width.unwrap_or(experts.width);
    decoder(b, true, Some(Experts { shared, ..experts }))
}

fn decoder(b: &mut Builder, fused_qkv: bool, experts: Option<Experts>) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let norms = QueryNorms::Heads;
    let style = AttentionStyle { fused_qkv, rope: Some(rope), norms, ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
