//! Granite: Llama's decoder with four factors: of embeddings, of scores, of what each half of a layer adds, and of
//! the logits, which are divided by theirs (here before the head, where there are fewer values).

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder};
use crate::program::Map;
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let factor = |key| Ok::<f32, crate::Error>(b.keys.f32(key)?.filter(|f| *f != 0.0).unwrap_or(1.0));
    let (embedding, residual) = (factor("embedding_scale")?, factor("residual_scale")?);
    let logits = factor("logit_scale")?;
    let scale = b.keys.f32("attention.scale")?.filter(|scale| *scale != 0.0);
    let style = AttentionStyle { rope: Some(rope), scale, ..AttentionStyle::default() };
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale(embedding), x);
    let h = Decoder { residual_scale: residual, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.map("logit_scale", Map::Scale(1.0 / logits), h);
    b.head(h)?;
    Ok(())
}
