//! Gemma 3n: four residual streams, of which each layer computes one and predicts the others (AltUp), a path of few values
//! beside attention (LAuReL), embeddings for each layer, gates of which only the largest open in the first layers, and
//! keys and values that the last layers share.

use crate::build::{AttentionStyle, Bias, Builder, QueryNorms};
use crate::program::{Activation, Map, View};
use crate::rope::{Pairing, Rope, Scaling};
use crate::{Error, Result};

/// Values of LAuReL's path; no file says another number.
const LAUREL_RANK: usize = 64;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let (c, keys) = (b.config, b.keys);
    let count = keys.size("altup.num_inputs")?.unwrap_or(4);
    let active = keys.size("altup.active_idx")?.unwrap_or(0);
    if !(2..=64).contains(&count) || active != 0 {
        return Err(Error::Invalid(format!("{count} streams of which {active} is active: not Gemma 3n")));
    }
    let width = keys.width("embedding_length_per_layer_input")?.filter(|width| *width > 0).unwrap_or(256);
    let spreads = keys.spreads("activation_sparsity_scale", c.layers)?;
    let styles = styles(b)?;
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale((c.width as f32).sqrt()), x);
    let inputs = b.per_layer_inputs(width, x)?;
    let streams = b.streams(count, x)?;
    for (layer, (style, spread)) in styles.into_iter().zip(spreads).enumerate() {
        b.enter(layer);
        b.predict_streams(streams, x)?;
        let h = b.rms_norm("attn_norm", x)?;
        let laurel = b.laurel(LAUREL_RANK, h)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.rms_norm_in_place("post_attention_norm", y)?;
        b.add("attn_residual", x, y);
        b.add("laurel_residual", x, laurel);
        b.map("laurel_scale", Map::Scale(0.5f32.sqrt()), x);
        let y = feed_forward(b, spread, x)?;
        b.rms_norm_in_place("post_ffw_norm", y)?;
        b.add("ffn_residual", x, y);
        b.correct_streams(streams, x)?;
        b.add_to_other_streams(streams, inputs.part(layer * width, width))?;
    }
    b.leave();
    b.mean_of_streams(streams, x)?;
    let h = b.rms_norm("output_norm", x)?;
    let logits = b.head(h)?;
    let cap = b.keys.f32("final_logit_softcapping")?.unwrap_or(30.0);
    b.map("soft_cap", Map::SoftCap(cap), logits);
    Ok(())
}

fn feed_forward(b: &mut Builder, spread: Option<f32>, x: View) -> Result<View> {
    let h = b.rms_norm("ffn_norm", x)?;
    match spread {
        Some(spread) => b.sparse_feed_forward(Activation::Gelu, spread, h),
        None => b.gated_feed_forward(Activation::Gelu, h),
    }
}

/// The attention of each layer.
fn styles(b: &mut Builder) -> Result<Vec<AttentionStyle>> {
    let (c, keys) = (b.config, b.keys);
    let whole = b.rope(Pairing::SplitHalf)?;
    let base = keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let near = b.add_rope(Rope::new(Pairing::SplitHalf, c.rope_dimensions, base, &Scaling::None, None)?);
    let window = Some(keys.required("attention.sliding_window")?);
    let windowed = keys.windowed_layers(c.layers, 5)?;
    let shared = b.shared_keys(&windowed, c.layers.saturating_sub(20))?;
    let style = AttentionStyle {
        norms: QueryNorms::Heads,
        norms_values: true,
        scale: Some(1.0),
        ..AttentionStyle::default()
    };
    let of_layer = |(windowed, keys_of)| match windowed {
        true => AttentionStyle { rope: Some(near), window, keys_of, ..style },
        false => AttentionStyle { rope: Some(whole), keys_of, ..style },
    };
    Ok(windowed.into_iter().zip(shared).map(of_layer).collect())
}
