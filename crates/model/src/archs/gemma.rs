//! Gemma 1, 2 and 3: embeddings scaled by the root of their width, a GELU gate, and from Gemma 2 on norms after
//! attention and feed-forward too, and windows in most layers. Files have the one that Gemma adds to the factors of
//! norms in them.

use super::decoder::{Decoder, Norms};
use crate::Result;
use crate::build::{AttentionStyle, Builder, QueryNorms};
use crate::program::{Activation, Map, Pooling, View};
use crate::rope::{Pairing, Rope, Scaling};

pub(super) fn gemma(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, Norms::Before, |_| style)?;
    Ok(())
}

/// Scores and logits have a soft cap; every other layer sees a window.
pub(super) fn gemma2(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let window = b.keys.size("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(b.config.layers, 2)?;
    let style = AttentionStyle {
        rope: Some(rope),
        scale: scale(b, 46),
        soft_cap: Some(b.keys.f32("attn_logit_softcapping")?.unwrap_or(50.0)),
        ..AttentionStyle::default()
    };
    let logits = decoder(b, Norms::Both, |layer| AttentionStyle {
        window: window.filter(|_| windowed[layer]),
        ..style
    })?;
    let cap = b.keys.f32("final_logit_softcapping")?.unwrap_or(30.0);
    b.map("soft_cap", Map::SoftCap(cap), logits);
    Ok(())
}

/// Norms on the heads of Q and K instead of caps; five of six layers see a window, with rotary frequencies of their
/// own.
pub(super) fn gemma3(b: &mut Builder) -> Result<()> {
    let h = third(b, false)?;
    let logits = b.head(h)?;
    if let Some(cap) = b.keys.f32("final_logit_softcapping")? {
        b.map("soft_cap", Map::SoftCap(cap), logits);
    }
    Ok(())
}

/// EmbeddingGemma: the layers of Gemma 3, which see both ways, and two linear layers of the mean.
pub(super) fn embedding(b: &mut Builder) -> Result<()> {
    let h = third(b, true)?;
    let pooling = b.keys.pooling()?.unwrap_or(Pooling::Mean);
    b.pool(pooling, h);
    b.dense(h)
}

/// The layers of Gemma 3.
fn third(b: &mut Builder, both_ways: bool) -> Result<View> {
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let near =
        b.add_rope(Rope::new(Pairing::SplitHalf, b.config.rope_dimensions, base, &Scaling::None, None)?);
    let window = b.keys.size("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(b.config.layers, 6)?;
    let scale = if both_ways { None } else { scale(b, 62) };
    let style = AttentionStyle { norms: QueryNorms::Heads, scale, both_ways, ..AttentionStyle::default() };
    layers(b, Norms::Both, |layer| match windowed[layer] {
        true => AttentionStyle { rope: Some(near), window, ..style },
        false => AttentionStyle { rope: Some(whole), ..style },
    })
}

/// The largest model of each generation, known by its layers, has the factor of another width of heads.
fn scale(b: &Builder, layers_of_27b: usize) -> Option<f32> {
    let c = b.config;
    (c.layers == layers_of_27b).then(|| 1.0 / ((c.width / c.heads) as f32).sqrt())
}

fn decoder(b: &mut Builder, norms: Norms, style: impl Fn(usize) -> AttentionStyle) -> Result<View> {
    let h = layers(b, norms, style)?;
    b.head(h)
}

fn layers(b: &mut Builder, norms: Norms, style: impl Fn(usize) -> AttentionStyle) -> Result<View> {
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale((b.config.width as f32).sqrt()), x);
    Decoder { norms, activation: Activation::Gelu, ..Decoder::default() }.layers(b, x, style)
}
