//! Laguna: windows in three of four layers, with more heads and rotary frequencies of their own, which are not stretched; a
//! gate on the result of attention by softplus, for each head or for each value; experts chosen by sigmoid in all but the
//! first layers, and one that every row uses.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, OutputGate, QueryNorms};
use crate::program::Activation;
use crate::rope::{Pairing, Rope, Scaling};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(c.rope_base);
    let dimensions = b.keys.size("rope.dimension_count_swa")?.unwrap_or(c.rope_dimensions);
    let near =
        b.add_rope(Rope::new(Pairing::SplitHalf, dimensions.min(c.key_dim), base, &Scaling::None, None)?);
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0);
    let windowed = b.keys.windowed_after_first(c.layers, 4)?;
    let experts = Some(Experts::by_sigmoid(b.keys, c.feed_forward)?.with_shared());
    let (norms, gate) = (QueryNorms::Heads, OutputGate::Own(Activation::Softplus));
    let x = b.embed()?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |layer| {
        let window = window.filter(|_| windowed[layer]);
        let rope = Some(if window.is_some() { near } else { whole });
        AttentionStyle { rope, window, norms, gate, ..AttentionStyle::default() }
    })?;
    b.head(h)?;
    Ok(())
}
