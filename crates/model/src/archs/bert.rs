//! BERT and its relatives, which read a text both ways at once and give one vector for it. Norms come after each half
//! of a layer, and what they give is the residual stream.

use crate::build::{AttentionStyle, Bias, Builder, Experts, QueryNorms};
use crate::program::{Activation, Pooling, View};
use crate::rope::Pairing;
use crate::{Error, Result};

/// Also MiniLM, BGE, E5, Arctic, and those that come from XLM-RoBERTa: learned positions.
pub(super) fn bert(b: &mut Builder) -> Result<()> {
    let x = b.embed()?;
    b.add_token_type(x)?;
    b.add_positions(x)?;
    layers(b, x, AttentionStyle::default(), |b, _, h| {
        b.feed_forward(Activation::ExactGelu, h, Bias::Optional)
    })
}

/// Nomic Embed 1: rotary positions, a SiLU gate.
pub(super) fn nomic(b: &mut Builder) -> Result<()> {
    let x = b.embed()?;
    b.add_token_type(x)?;
    let style = AttentionStyle { rope: Some(b.rope(Pairing::SplitHalf)?), ..AttentionStyle::default() };
    layers(b, x, style, |b, _, h| b.gated_feed_forward(Activation::Silu, h))
}

/// Nomic Embed 2: rotary positions, no gate, and in every second layer experts whose weights are as the softmax gave
/// them.
pub(super) fn nomic_experts(b: &mut Builder) -> Result<()> {
    let x = b.embed()?;
    b.add_token_type(x)?;
    let style = AttentionStyle { rope: Some(b.rope(Pairing::SplitHalf)?), ..AttentionStyle::default() };
    let every = b.keys.required("moe_every_n_layers")?;
    let read = Experts::required(b.keys, b.config.feed_forward)?;
    let experts = Experts { normalised: false, gated: false, ..read };
    layers(b, x, style, |b, layer, h| match layer % every {
        1 => b.experts(&experts, Activation::ExactGelu, h),
        _ => b.feed_forward(Activation::ExactGelu, h, Bias::Optional),
    })
}

/// Jina Embeddings 2: scores fade with distance, a GELU gate, which may be in one tensor with what it gates.
pub(super) fn jina2(b: &mut Builder) -> Result<()> {
    let x = b.embed()?;
    b.add_token_type(x)?;
    if b.has("blk.0.attn_norm_2.weight") {
        let what = "blk.0.attn_norm_2: a second norm after attention, which this build does not know";
        return Err(Error::Invalid(what.to_string()));
    }
    let norms = if b.has("blk.0.attn_q_norm.weight") { QueryNorms::LayerRows } else { QueryNorms::None };
    let style = AttentionStyle { alibi: Some(8.0), norms, ..AttentionStyle::default() };
    let apart = b.has("blk.0.ffn_gate.weight");
    layers(b, x, style, |b, _, h| match apart {
        true => b.gated_feed_forward(Activation::ExactGelu, h),
        false => b.fused_feed_forward(Activation::ExactGelu, h),
    })
}

/// Jina Embeddings 3: rotary positions.
pub(super) fn jina3(b: &mut Builder) -> Result<()> {
    let x = b.embed()?;
    b.add_token_type(x)?;
    let style = AttentionStyle { rope: Some(b.rope(Pairing::SplitHalf)?), ..AttentionStyle::default() };
    layers(b, x, style, |b, _, h| b.feed_forward(Activation::ExactGelu, h, Bias::Optional))
}

/// The layers, and the pooling of what they leave in `x`.
fn layers(
    b: &mut Builder,
    x: View,
    style: AttentionStyle,
    feed_forward: impl Fn(&mut Builder, usize, View) -> Result<View>,
) -> Result<()> {
    b.layer_norm("token_embd_norm", x, x)?;
    let fused_qkv = b.has("blk.0.attn_qkv.weight");
    // The stream changes between two buffers, so that a sum and its norm can be one op.
    let h = b.buffer("h", x.width);
    for layer in 0..b.config.layers {
        b.enter(layer);
        let y = b.attention(AttentionStyle { both_ways: true, fused_qkv, ..style }, x, Bias::Optional)?;
        b.post_norm("attn_output_norm", x, y, h)?;
        let y = feed_forward(b, layer, h)?;
        b.post_norm("layer_output_norm", h, y, x)?;
    }
    b.leave();
    let pooling = b.keys.pooling()?.unwrap_or(Pooling::Mean);
    b.pool(pooling, x);
    Ok(())
}
