//! Nemotron: layer norms with biases, half of each head rotated, and a squared ReLU without a gate.

use super::decoder::{Decoder, Gate, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder {
        norm: NormKind::Layer,
        activation: Activation::SquaredRelu,
        gate: Gate::None(Bias::Optional),
        ..Decoder::default()
    };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
