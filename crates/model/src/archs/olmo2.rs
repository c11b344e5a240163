//! OLMo 2 and 3: no norm before attention and feed-forward but one after each, and norms over all heads of Q and K
//! together. OLMo 3 sees a window in three of four layers, whose rotary frequencies are not stretched.

use super::decoder::{Decoder, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder, QueryNorms};
use crate::rope::{Pairing, Rope, Scaling};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(c.rope_base);
    let near = b.add_rope(Rope::new(Pairing::SplitHalf, c.rope_dimensions, base, &Scaling::None, None)?);
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0);
    let windowed = b.keys.windowed_layers(c.layers, 4)?;
    let x = b.embed()?;
    let h = Decoder { norms: Norms::After, ..Decoder::default() }.layers(b, x, |layer| {
        let window = window.filter(|_| windowed[layer]);
        let rope = Some(if window.is_some() { near } else { whole });
        AttentionStyle { norms: QueryNorms::Rows, rope, window, ..AttentionStyle::default() }
    })?;
    b.head(h)?;
    Ok(())
}
