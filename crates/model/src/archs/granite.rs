//! Granite: Llama's decoder with four factors: of embeddings, of scores, of what each half of a layer adds, and of
//! the logits, which are divided by theirs (here before the head, where there are fewer values). Granite 4 has Mamba 2 in
//! the place of attention in layers without key heads. As `granitemoe`, and where Granite 4 says so, it has experts.
//! MiniCPM has the same factors.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts, Latent};
use crate::program::{Map, View};
use crate::rope::Pairing;

/// A Granite 4 without scans says their sizes all the same.
pub(super) fn build(b: &mut Builder) -> Result<()> {
    if b.keys.size("ssm.conv_kernel")?.is_some() {
        b.state_space()?;
    }
    let rope = b.rope(Pairing::Interleaved)?;
    decoder(b, Some(rope), [1.0; 3], |b, _, style, h| b.attention(style, h, Bias::Optional))
}

/// MiniCPM: older files leave its factors out.
pub(super) fn minicpm(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    decoder(b, Some(rope), minicpm_factors(b), |b, _, style, h| b.attention(style, h, Bias::Optional))
}

/// MiniCPM 3: MiniCPM's factors around attention over a latent vector.
pub(super) fn minicpm3(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let latent = Latent::read(b, Some(rope), 1.0)?;
    decoder(b, None, minicpm_factors(b), |b, _, _, h| b.latent_attention(&latent, h))
}

/// The factors of embeddings, residuals and logits that all MiniCPM have.
fn minicpm_factors(b: &Builder) -> [f32; 3] {
    [12.0, 1.4 / (b.config.layers as f32).sqrt(), b.config.width as f32 / 256.0]
}

/// Granite 4: a file that says that its rotary embedding is not tuned has none.
pub(super) fn hybrid(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    let rotates = b.keys.bool("rope.scaling.finetuned")?.unwrap_or(true);
    let rope = if rotates { Some(b.rope(Pairing::Interleaved)?) } else { None };
    decoder(b, rope, [1.0; 3], |b, layer, style, h| match b.config.layer_kv_heads[layer] {
        0 => b.mamba2(sizes, h),
        _ => b.attention(style, h, Bias::Optional),
    })
}

/// `usual` are the factors of embeddings, residuals and logits where the file has none.
fn decoder(
    b: &mut Builder,
    rope: Option<usize>,
    usual: [f32; 3],
    mixer: impl Fn(&mut Builder, usize, AttentionStyle, View) -> Result<View>,
) -> Result<()> {
    let factor =
        |key, usual| Ok::<f32, crate::Error>(b.keys.f32(key)?.filter(|f| *f != 0.0).unwrap_or(usual));
    let embedding = factor("embedding_scale", usual[0])?;
    let (residual, logits) = (factor("residual_scale", usual[1])?, factor("logit_scale", usual[2])?);
    let scale = b.keys.f32("attention.scale")?.filter(|scale| *scale != 0.0);
    let style = AttentionStyle { rope, scale, ..AttentionStyle::default() };
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale(embedding), x);
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let decoder = Decoder { residual_scale: residual, experts, ..Decoder::default() };
    let h = decoder.layers_of(b, x, b.config.layers, |b, layer, h| mixer(b, layer, style, h))?;
    b.map("logit_scale", Map::Scale(1.0 / logits), h);
    b.head(h)?;
    Ok(())
}
