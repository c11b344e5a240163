//! SmolLM3: Llama's decoder, of whose layers every fourth knows no positions.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let x = b.embed()?;
    let h = Decoder::default().layers(b, x, |layer| AttentionStyle {
        rope: (!(layer + 1).is_multiple_of(4)).then_some(rope),
        ..AttentionStyle::default()
    })?;
    b.head(h)?;
    Ok(())
}
