//! SmolLM3: Llama's decoder, of whose layers every fourth knows no positions.

use super::llama::decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    decoder(b, Bias::Optional, |layer| AttentionStyle {
        rope: (!(layer + 1).is_multiple_of(4)).then_some(rope),
        ..AttentionStyle::default()
    })
}
