//! Apertus: a norm on each head of Q and K, and a feed-forward without a gate whose non-linearity, xIELU, has numbers of
//! its own in each layer.

use crate::arithmetic::Xielu;
use crate::build::{AttentionStyle, Bias, Builder, QueryNorms};
use crate::program::Map;
use crate::rope::Pairing;
use crate::{Error, Result};

/// How close to zero the argument of the exponential stops in transformers, which tells nothing apart but is in files.
const STOPS: f32 = 1e-5;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let layers = b.config.layers;
    let [above, below, slope, stops] = ["alpha_p", "alpha_n", "beta", "eps"]
        .map(|name| b.keys.numbers_of_layers(&format!("xielu.{name}"), layers));
    let (above, below, slope, stops) = (above?, below?, slope?, stops?);
    if let Some(stop) = stops.iter().find(|stop| stop.abs() > STOPS) {
        return Err(Error::Invalid(format!(
            "metadata key xielu.eps: {stop} is not known; known: next to zero"
        )));
    }
    let rope = b.rope(Pairing::SplitHalf)?;
    let style = AttentionStyle { rope: Some(rope), norms: QueryNorms::Heads, ..AttentionStyle::default() };
    let x = b.embed()?;
    for layer in 0..layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = b.attention(style, h, Bias::Optional)?;
        b.add("attn_residual", x, y);
        let h = b.rms_norm("ffn_norm", x)?;
        let numbers = Xielu::new(above[layer], below[layer], slope[layer]);
        let y = b.mapped_feed_forward(Map::Xielu(numbers), h)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
