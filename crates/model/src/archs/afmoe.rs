//! Arcee's Trinity: embeddings scaled by the root of their width, norms before and after each half, a gate on the result
//! of attention, windows in three of four layers, which alone know positions, and experts chosen by sigmoid in all but the
//! first layers.

use super::decoder::{Decoder, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, OutputGate, QueryNorms};
use crate::program::{Activation, Map};
use crate::rope::Pairing;

/// How many layers it is to the next one without rotation.
const UNROTATED: usize = 4;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0);
    let windowed = b.keys.windowed_layers(b.config.layers, UNROTATED)?;
    let experts = Some(Experts::by_sigmoid(b.keys, b.config.feed_forward)?);
    let (norms, gate) = (QueryNorms::Heads, OutputGate::Own(Activation::Sigmoid));
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale((b.config.width as f32).sqrt()), x);
    let h = Decoder { norms: Norms::Both, experts, ..Decoder::default() }.layers(b, x, |layer| {
        let rope = (!(layer + 1).is_multiple_of(UNROTATED)).then_some(rope);
        let window = window.filter(|_| windowed[layer]);
        AttentionStyle { rope, window, norms, gate, ..AttentionStyle::default() }
    })?;
    b.head(h)?;
    Ok(())
}
