//! Llama and all that share its shape under its name: Mistral, SmolLM, TinyLlama, Llama 3 with its
//! rotary factors. RMS norms, interleaved rotary pairs, a SiLU gate, biases where the file has them.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder};
use crate::program::Activation;
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, Bias::Optional, |_| style)
}

/// The decoder that Llama made common; its relatives differ in the attention alone, some layer by layer.
pub(super) fn decoder(
    b: &mut Builder,
    qkv_bias: Bias,
    style: impl Fn(usize) -> AttentionStyle,
) -> Result<()> {
    let x = b.embed()?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = b.attention(style(layer), h, qkv_bias)?;
        b.add("attn_residual", x, y);
        let h = b.rms_norm("ffn_norm", x)?;
        let y = b.gated_feed_forward(Activation::Silu, h)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
