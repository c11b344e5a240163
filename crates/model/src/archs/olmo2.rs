//! OLMo 2 and 3: no norm before attention and feed-forward but one after each, and norms over all heads of Q and K
//! together. OLMo 3 sees a window in three of four layers, whose rotary frequencies are not stretched.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, QueryNorms};
use crate::program::Activation;
use crate::rope::{Pairing, Rope, Scaling};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let whole = b.rope(Pairing::SplitHalf)?;
    let near =
        b.add_rope(Rope::new(Pairing::SplitHalf, c.rope_dimensions, c.rope_base, &Scaling::None, None)?);
    let window = b.keys.size("attention.sliding_window")?.filter(|window| *window > 0);
    let windowed = b.keys.windowed_layers(c.layers, 4)?;
    let x = b.embed()?;
    for (layer, windowed) in windowed.into_iter().enumerate() {
        b.enter(layer);
        let sees_all = window.is_none() || !windowed;
        let style = AttentionStyle {
            norms: QueryNorms::Rows,
            rope: Some(if sees_all { whole } else { near }),
            window: window.filter(|_| !sees_all),
            ..AttentionStyle::default()
        };
        let y = b.attention(style, x, Bias::Optional)?;
        b.rms_norm_in_place("post_attention_norm", y)?;
        b.add("attn_residual", x, y);
        let y = b.gated_feed_forward(Activation::Silu, x)?;
        b.rms_norm_in_place("post_ffw_norm", y)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
