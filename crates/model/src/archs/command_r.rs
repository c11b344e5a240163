//! Command R and R+ (as `command-r`), Command R7B and A (as `cohere2`): layer norms without biases, attention and
//! feed-forward side by side on the same normed values, and a factor of the logits (here before the head, where there are
//! fewer values).

use super::decoder::{Decoder, Halves, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Builder, QueryNorms};
use crate::program::Map;
use crate::rope::Pairing;

/// R+ has norms on the heads of Q and K.
pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let norms = QueryNorms::LayerHeadsWhereGiven;
    let style = AttentionStyle { rope: Some(rope), norms, ..AttentionStyle::default() };
    decoder(b, |_| style)
}

/// Three of four layers see a window and are rotated, the fourth sees everything and knows no positions.
pub(super) fn second(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let window = b.keys.required("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(b.config.layers, 4)?;
    decoder(b, |layer| {
        let (rope, window) = (windowed[layer].then_some(rope), windowed[layer].then_some(window));
        AttentionStyle { rope, window, ..AttentionStyle::default() }
    })
}

fn decoder(b: &mut Builder, style: impl Fn(usize) -> AttentionStyle) -> Result<()> {
    let factor = b.keys.f32("logit_scale")?.filter(|factor| *factor != 0.0).unwrap_or(1.0);
    let x = b.embed()?;
    let decoder = Decoder { norm: NormKind::BareLayer, halves: Halves::Parallel, ..Decoder::default() };
    let h = decoder.layers(b, x, style)?;
    b.map("logit_scale", Map::Scale(factor), h);
    b.head(h)?;
    Ok(())
}
