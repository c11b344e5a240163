//! Mamba 1 (and FalconMamba, which norms what a scan is steered by) and Mamba 2: state-space layers and nothing else.
//! Jamba has Mamba 1 in the place of attention in layers without key heads, and experts where the file has them.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, StepNorms};
use crate::program::View;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    let normed = b.keys.bool("ssm.dt_b_c_rms")?.unwrap_or(false);
    let norms = if normed { StepNorms::Plain } else { StepNorms::None };
    layers(b, |b, h| b.mamba(sizes, norms, h))
}

/// Attention knows no positions, and weights of experts are as the softmax gave them.
pub(super) fn jamba(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let experts = experts.map(|read| Experts { normalised: false, where_given: true, ..read });
    let decoder = Decoder { experts, ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, b.config.layers, |b, layer, h| match b.config.layer_kv_heads[layer] {
        0 => b.mamba(sizes, StepNorms::Weighted, h),
        _ => b.attention(AttentionStyle::default(), h, decoder.qkv_bias),
    })?;
    b.head(h)?;
    Ok(())
}

pub(super) fn second(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    layers(b, |b, h| b.mamba2(sizes, h))
}

fn layers(b: &mut Builder, mixer: impl Fn(&mut Builder, View) -> Result<View>) -> Result<()> {
    let x = b.embed()?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = mixer(b, h)?;
        b.add("residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
