//! Step 3.5: windows in most layers, with more heads and rotary frequencies of their own; half of each head is rotated in
//! the others. Each head's result has a gate. Experts are chosen by sigmoid, one is used by every row, and the last
//! layers bound what is inside them.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts, OutputGate, QueryNorms};
use crate::program::Activation;
use crate::rope::{Pairing, Rope};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let base = b.keys.f32("rope.freq_base_swa")?.unwrap_or(c.rope_base);
    let factors = b.values("rope_freqs.weight");
    let (near, whole) = (c.rope_dimensions, c.rope_dimensions / 2);
    let factors = factors.as_deref().map(|factors| &factors[..factors.len().min(whole / 2)]);
    let rope =
        |dimensions, base, factors| Rope::new(Pairing::SplitHalf, dimensions, base, &c.rope_scaling, factors);
    let (near, whole) = (rope(near, base, None)?, rope(whole, c.rope_base, factors)?);
    let (near, whole) = (b.add_rope(near), b.add_rope(whole));
    let window = b.keys.required("attention.sliding_window")?;
    let windowed = b.keys.windowed_layers(c.layers, 1)?;
    let limits = b.keys.limits("swiglu_clamp_exp", c.layers)?;
    let shared_limits = b.keys.limits("swiglu_clamp_shexp", c.layers)?;
    // Tensors tell which layers have experts, whatever the file says about the first ones.
    let read = Experts::by_sigmoid(b.keys, c.feed_forward)?;
    let experts = Experts { first_layer: 0, where_given: true, ..read };
    let x = b.embed()?;
    for layer in 0..c.layers {
        b.enter(layer);
        let (rope, window) = if windowed[layer] { (near, Some(window)) } else { (whole, None) };
        let gated = b.has(&format!("blk.{layer}.attn_gate.weight"));
        let gate = if gated { OutputGate::Own(Activation::Sigmoid) } else { OutputGate::None };
        let norms = QueryNorms::HeadsWhereGiven;
        let style = AttentionStyle { rope: Some(rope), window, norms, gate, ..AttentionStyle::default() };
        let h = b.rms_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.add("attn_residual", x, y);
        let h = b.rms_norm("ffn_norm", x)?;
        let experts = Experts { limits: [limits[layer], shared_limits[layer]], ..experts };
        let y = match b.has_experts(&experts, layer) {
            true => b.experts(&experts, Activation::Silu, h)?,
            false => b.gated_feed_forward(Activation::Silu, h)?,
        };
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
