//! GPT-NeoX and Pythia, Phi-1.5 and Phi-2, Falcon: layer norms, a GELU without a gate, and attention and feed-forward side
//! by side on what the layer reads.

use super::decoder::{Decoder, Gate, Halves, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;
use crate::rope::Pairing;

/// Each half has a norm of its own. Files say whether the halves are side by side at all.
pub(super) fn build(b: &mut Builder) -> Result<()> {
    let parallel = b.keys.bool("use_parallel_residual")?.unwrap_or(true);
    let halves = if parallel { Halves::ParallelNorms("ffn_norm") } else { Halves::InTurn };
    decoder(b, Bias::Required, Decoder { halves, activation: Activation::ExactGelu, ..Decoder::default() })
}

/// One norm for both halves.
pub(super) fn phi2(b: &mut Builder) -> Result<()> {
    let activation = Activation::Gelu;
    decoder(b, Bias::Required, Decoder { halves: Halves::Parallel, activation, ..Decoder::default() })
}

/// No biases but those of norms; the larger models have a second norm, which is attention's.
pub(super) fn falcon(b: &mut Builder) -> Result<()> {
    let (attn_norm, halves) = match b.has("blk.0.attn_norm_2.weight") {
        true => ("attn_norm_2", Halves::ParallelNorms("attn_norm")),
        false => ("attn_norm", Halves::Parallel),
    };
    let activation = Activation::ExactGelu;
    decoder(b, Bias::Optional, Decoder { attn_norm, halves, activation, ..Decoder::default() })
}

fn decoder(b: &mut Builder, bias: Bias, decoder: Decoder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let fused_qkv = b.has("blk.0.attn_qkv.weight");
    let style = AttentionStyle { fused_qkv, rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder { norm: NormKind::Layer, qkv_bias: bias, gate: Gate::None(bias), ..decoder };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
