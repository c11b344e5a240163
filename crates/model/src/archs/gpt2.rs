//! GPT-2: learned positions, layer norms, one fused Q|K|V with a bias, a GELU without a gate.

use super::decoder::{Decoder, Gate, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let style = AttentionStyle { fused_qkv: true, ..AttentionStyle::default() };
    let x = b.embed()?;
    b.add_positions(x)?;
    let decoder = Decoder {
        norm: NormKind::Layer,
        qkv_bias: Bias::Required,
        activation: Activation::Gelu,
        gate: Gate::None(Bias::Required),
        ..Decoder::default()
    };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
