//! EXAONE 4: norms after attention and feed-forward only, and on each head of Q and K. The largest sees a window in three
//! of four layers, and only those know positions. K-EXAONE, as `exaone-moe`, has the same windows, norms before each half,
//! and experts in all but the first layers.

use super::decoder::{Decoder, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

/// The window of the largest model, known by its layers, where the file does not say it.
const LARGEST: (usize, usize) = (64, 4096);

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let usual = (b.config.layers == LARGEST.0).then_some(LARGEST.1);
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0).or(usual);
    decoder(b, window, Decoder { norms: Norms::After, ..Decoder::default() })
}

pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let window = b.keys.required("attention.sliding_window")?;
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?.with_shared();
    decoder(b, Some(window), Decoder { experts: Some(experts), ..Decoder::default() })
}

fn decoder(b: &mut Builder, window: Option<usize>, decoder: Decoder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let windowed = b.keys.windowed_layers(b.config.layers, 4)?;
    let x = b.embed()?;
    let h = decoder.layers(b, x, |layer| {
        let near = window.filter(|_| windowed[layer]);
        let rope = Some(rope).filter(|_| window.is_none() || near.is_some());
        AttentionStyle { rope, window: near, norms: QueryNorms::Heads, ..AttentionStyle::default() }
    })?;
    b.head(h)?;
    Ok(())
}
