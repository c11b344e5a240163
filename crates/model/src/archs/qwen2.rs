//! Qwen2 and Qwen2.5: Llama's decoder with split-half rotary pairs and biases on Q, K and V.

use super::llama::decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    decoder(b, AttentionStyle { rope: Some(rope), ..AttentionStyle::default() }, Bias::Required)
}
