//! GLM-4 of 2025: norms before and after attention and feed-forward, gate and up in one tensor, half of each head
//! rotated. GLM-4.5 and later have experts in all but the first layers, and norms before each half only.

use super::decoder::{self, Decoder, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;
use crate::routing::Gate;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder { norms: Norms::Both, gate: decoder::Gate::InUp, ..Decoder::default() };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}

/// The norm before feed-forward is called after attention; a block at the end, which guesses at a token more, is left
/// out.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    b.keys.sections_of_text()?;
    let rope = b.rope(Pairing::SplitHalf)?;
    let experts = Experts::required(b.keys, b.config.feed_forward)?;
    let gate = if b.keys.size("expert_gating_func")?.is_none() { Gate::Sigmoid } else { experts.gate };
    let style =
        AttentionStyle { rope: Some(rope), norms: QueryNorms::HeadsWhereGiven, ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder {
        ffn_norm: "post_attention_norm.weight",
        experts: Some(Experts { gate, ..experts }),
        ..Decoder::default()
    };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
