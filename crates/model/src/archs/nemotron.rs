//! Nemotron: layer norms with biases, half of each head rotated, and a squared ReLU without a gate.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    let x = b.embed()?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.layer_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.add("attn_residual", x, y);
        let h = b.layer_norm("ffn_norm", x)?;
        let y = b.feed_forward(Activation::SquaredRelu, h, Bias::Optional)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.layer_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
