//! GPT-2: learned positions, layer norms, one fused Q|K|V with a bias, a GELU without a gate. StarCoder2 has rotary
//! positions instead, and Q, K and V apart.

use super::decoder::{Decoder, Gate, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::{Activation, View};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let style = AttentionStyle { fused_qkv: true, ..AttentionStyle::default() };
    let x = b.embed()?;
    b.add_positions(x)?;
    decoder(b, x, style)
}

pub(super) fn starcoder2(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let x = b.embed()?;
    decoder(b, x, AttentionStyle { rope: Some(rope), ..AttentionStyle::default() })
}

fn decoder(b: &mut Builder, x: View, style: AttentionStyle) -> Result<()> {
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
