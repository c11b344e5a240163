//! GLM-4 of 2025: norms before and after attention and feed-forward, gate and up in one tensor, half of each head
//! rotated.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.rms_norm_in_place("post_attention_norm", y)?;
        b.add("attn_residual", x, y);
        let h = b.rms_norm("ffn_norm", x)?;
        let y = b.fused_feed_forward(Activation::Silu, h)?;
        b.rms_norm_in_place("post_ffw_norm", y)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
