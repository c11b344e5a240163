//! Qwen3: Llama's decoder with split-half rotary pairs and a norm on each head of Q and K.

use super::llama::decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), head_norms: true, ..AttentionStyle::default() };
    decoder(b, style, Bias::Optional)
}
