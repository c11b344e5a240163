//! GLM-4 of 2025: norms before and after attention and feed-forward, gate and up in one tensor, half of each head
//! rotated.

use super::decoder::{Decoder, Gate, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder { norms: Norms::Both, gate: Gate::InUp, ..Decoder::default() };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
