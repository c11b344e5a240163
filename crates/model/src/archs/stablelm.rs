//! StableLM 1 and 2: Llama's decoder with layer norms and part of each head rotated. The largest has norms on the heads of
//! Q and K, and attention and feed-forward side by side on the same normed values.

use super::decoder::{Decoder, Halves, NormKind};
use crate::Result;
use crate::build::{AttentionStyle, Builder, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    // Files say it of models that have a norm before feed-forward, too, and so are not.
    b.keys.ignore("use_parallel_residual");
    let halves = if b.has("blk.0.ffn_norm.weight") { Halves::InTurn } else { Halves::Parallel };
    let rope = b.rope(Pairing::SplitHalf)?;
    let norms = QueryNorms::LayerHeadsWhereGiven;
    let style = AttentionStyle { rope: Some(rope), norms, ..AttentionStyle::default() };
    let x = b.embed()?;
    let decoder = Decoder { norm: NormKind::Layer, halves, ..Decoder::default() };
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
