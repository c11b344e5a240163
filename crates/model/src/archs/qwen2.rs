//! Qwen2 and Qwen2.5, their mixture of experts, and the text side of Qwen2-VL: Llama's decoder with split-half rotary
//! pairs and biases on Q, K and V.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    decoder(b, None)
}

/// Weights as the softmax gave them, and an expert with a gate that every row uses.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let experts = Experts::required(b.keys, c.feed_forward)?;
    let normalised = b.keys.bool("expert_weights_norm")?.unwrap_or(false);
    let shared = if experts.shared > 0 { experts.shared } else { c.feed_forward };
    decoder(b, Some(Experts { normalised, shared, ..experts }))
}

fn decoder(b: &mut Builder, experts: Option<Experts>) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { qkv_bias: Bias::Required, experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}

/// Images have positions in three streams, which the pairs of a head share out in sections; of text they are all
/// the same.
pub(super) fn vision(b: &mut Builder) -> Result<()> {
    b.keys.sections_of_text()?;
    build(b)
}
