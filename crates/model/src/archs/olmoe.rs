//! OLMoE: Llama's decoder with experts, whose weights are as the softmax gave them, and norms over all heads of Q and K
//! together.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    let normalised = b.keys.bool("expert_weights_norm")?.unwrap_or(false);
    let style = AttentionStyle { rope: Some(rope), norms: QueryNorms::Rows, ..AttentionStyle::default() };
    let x = b.embed()?;
    let experts = Some(Experts { normalised, ..experts });
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
