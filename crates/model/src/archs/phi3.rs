//! Phi-3, Phi-3.5 and Phi-4: Q|K|V and gate|up in one tensor each, and for long contexts two tables of rotary
//! factors, of which the longer one holds where the context in use is longer than the one that the model began with. As
//! `phimoe` it has experts, tensors of their own, and norms with biases.

use super::decoder::{Decoder, Gate, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?;
    let style = AttentionStyle { fused_qkv: true, rope: Some(rope), window, ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { gate: Gate::InUp, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}

/// Phi-3.5 MoE.
pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?;
    let style = AttentionStyle { rope: Some(rope), window, ..AttentionStyle::default() };
    let experts = Some(Experts::required(b.keys, b.config.feed_forward)?);
    let x = b.embed()?;
    let decoder =
        Decoder { norm: NormKind::BiasedRms, qkv_bias: Bias::Required, experts, ..Decoder::default() };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
