//! Qwen2 and Qwen2.5, and the text side of Qwen2-VL: Llama's decoder with split-half rotary pairs and biases on Q, K
//! and V.

use super::llama::decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, Bias::Required, |_| style)
}

/// Images have positions in three streams, which the pairs of a head share out in sections; of text they are all
/// the same.
pub(super) fn vision(b: &mut Builder) -> Result<()> {
    b.keys.ignore("rope.dimension_sections");
    build(b)
}
