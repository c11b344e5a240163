//! Llama and all that share its shape under its name: Mistral and Mixtral, SmolLM, TinyLlama, Llama 3 with its
//! rotary factors. RMS norms, interleaved rotary pairs, a SiLU gate, biases where the file has them.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
