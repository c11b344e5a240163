//! Qwen2 and Qwen2.5, and the text side of Qwen2-VL: Llama's decoder with split-half rotary pairs and biases on Q, K
//! and V.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { qkv_bias: Bias::Required, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}

/// Images have positions in three streams, which the pairs of a head share out in sections; of text they are all
/// the same.
pub(super) fn vision(b: &mut Builder) -> Result<()> {
    b.keys.sections_of_text()?;
    build(b)
}
