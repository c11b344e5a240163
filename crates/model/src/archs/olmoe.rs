//! OLMoE: Llama's decoder with experts, whose weights are as the softmax gave them, and norms over all heads of Q and K
//! together. MiniMax M2 has these norms too, part of each head rotated, and experts chosen by sigmoid.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    let normalised = b.keys.bool("expert_weights_norm")?.unwrap_or(false);
    decoder(b, Experts { normalised, ..experts })
}

pub(super) fn minimax(b: &mut Builder) -> Result<()> {
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?;
    decoder(b, Experts { normalised: true, ..experts })
}

fn decoder(b: &mut Builder, experts: Experts) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), norms: QueryNorms::Rows, ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { experts: Some(experts), ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
