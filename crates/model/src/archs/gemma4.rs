//! Gemma 4: layers that see a window and layers that see everything have heads of different sizes and rotary
//! frequencies of their own; values are normed too, scores are taken as they are, and the last layers read the keys
//! and values of earlier ones. Small models have embeddings for each layer, others may have experts beside the
//! feed-forward.

use crate::build::{AttentionStyle, Bias, Builder, Experts, QueryNorms};
use crate::program::{Activation, Map, View};
use crate::rope::{Pairing, Rope, Scaling};
use crate::{Error, Result};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let (c, styles) = (b.config, styles(b)?);
    let x = b.embed()?;
    b.map("embed_scale", Map::Scale((c.width as f32).sqrt()), x);
    let width = b.keys.width("embedding_length_per_layer_input")?.unwrap_or(0);
    let inputs = if width > 0 { Some(b.per_layer_inputs(width, x)?) } else { None };
    let experts = Experts::read(b.keys, c.feed_forward)?;
    for (layer, style) in styles.into_iter().enumerate() {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.rms_norm_in_place("post_attention_norm", y)?;
        b.add("attn_residual", x, y);
        let h = b.rms_norm("ffn_norm", x)?;
        let mut y = b.gated_feed_forward(Activation::Gelu, h)?;
        if let Some(experts) = &experts {
            y = beside(b, experts, x, y)?;
        }
        b.rms_norm_in_place("post_ffw_norm", y)?;
        b.add("ffn_residual", x, y);
        if let Some(inputs) = inputs {
            let y = b.per_layer(x, inputs.part(layer * width, width))?;
            b.add("per_layer_residual", x, y);
        }
        b.output_scale(x)?;
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    let logits = b.head(h)?;
    if let Some(cap) = b.keys.f32("final_logit_softcapping")? {
        b.map("soft_cap", Map::SoftCap(cap), logits);
    }
    Ok(())
}

/// What experts give of `x`, and `dense`, what the feed-forward gave, each normed by itself. Scores are taken of a norm of
/// their own.
fn beside(b: &mut Builder, experts: &Experts, x: View, dense: View) -> Result<View> {
    let beside = b.buffer("beside_experts", x.width);
    b.rms_norm_into("post_ffw_norm_1", dense, beside)?;
    let h = b.rms_norm_of("ffn_gate_inp.scale", x)?;
    let scores = b.buffer("scores", experts.count);
    b.linear("ffn_gate_inp", h, scores, Bias::Optional)?;
    b.map("ffn_gate_inp_scale", Map::Scale(1.0 / (x.width as f32).sqrt()), scores);
    let choice = b.route(experts, scores)?;
    let h = b.rms_norm("pre_ffw_norm_2", x)?;
    let y = b.routed(experts, Activation::Gelu, choice, h)?;
    b.rms_norm_in_place("post_ffw_norm_2", y)?;
    b.add("ffn_beside_add", y, beside);
    Ok(y)
}

/// The attention of each layer.
fn styles(b: &mut Builder) -> Result<Vec<AttentionStyle>> {
    let (c, keys) = (b.config, b.keys);
    let whole = b.rope(Pairing::SplitHalf)?;
    let head = keys.width("attention.key_length_swa")?.unwrap_or(c.key_dim);
    let of_values = keys.width("attention.value_length_swa")?.unwrap_or(c.value_dim);
    let dimensions = keys.size("rope.dimension_count_swa")?.unwrap_or(head);
    if head != of_values || c.key_dim != c.value_dim || dimensions > head {
        let what = "heads of keys and values differ in size, or have fewer values than are rotated";
        return Err(Error::Invalid(format!("{what}: {head}, {of_values}, {dimensions}: not Gemma 4")));
    }
    let base = keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
    let near = b.add_rope(Rope::new(Pairing::SplitHalf, dimensions, base, &Scaling::None, None)?);
    let window = Some(keys.required("attention.sliding_window")?);
    let windowed = keys.windowed_layers(c.layers, 6)?;
    let shared = b.shared_keys(&windowed, 0)?;
    let style = AttentionStyle {
        norms: QueryNorms::Heads,
        norms_values: true,
        scale: Some(1.0),
        ..AttentionStyle::default()
    };
    let of_layer = |(windowed, keys_of)| match windowed {
        true => AttentionStyle { rope: Some(near), window, head: Some(head), keys_of, ..style },
        false => AttentionStyle { rope: Some(whole), keys_of, ..style },
    };
    Ok(windowed.into_iter().zip(shared).map(of_layer).collect())
}
