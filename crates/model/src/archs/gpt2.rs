//! GPT-2: learned positions, layer norms, one fused Q|K|V with a bias, a GELU without a gate.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let style = AttentionStyle { fused_qkv: true, ..AttentionStyle::default() };
    let x = b.embed()?;
    b.add_positions(x)?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.layer_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Required)?;
        b.add("attn_residual", x, y);
        let h = b.layer_norm("ffn_norm", x)?;
        let y = b.feed_forward(Activation::Gelu, h, Bias::Required)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.layer_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
