//! Llama and all that share its shape under its name: Mistral and Mixtral, SmolLM, TinyLlama, Llama 3 with its
//! rotary factors; under names of their own InternLM 2 and ERNIE 4.5. RMS norms, interleaved rotary pairs, a SiLU gate,
//! biases where the file has them. As `mistral3` its queries grow with their position.

use super::decoder::{Decoder, Gate};
use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::program::Activation;
use crate::rope::{Pairing, Rope, Scaling, Temperature, yarn_magnitude};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, style, Decoder { experts, ..Decoder::default() })
}

/// Arcee's AFM: a squared ReLU without a gate.
pub(super) fn arcee(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let (activation, gate) = (Activation::SquaredRelu, Gate::None(Bias::Optional));
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, style, Decoder { activation, gate, ..Decoder::default() })
}

/// ERNIE 4.5 with experts, which are in every `step`-th layer from some layer on.
pub(super) fn ernie_experts(b: &mut Builder) -> Result<()> {
    let rope = b.rope(Pairing::Interleaved)?;
    let step = b.keys.required("interleave_moe_layer_step")?;
    let experts = Experts { step, ..Experts::required(b.keys, b.config.feed_forward)? };
    let style = AttentionStyle { rope: Some(rope), ..AttentionStyle::default() };
    decoder(b, style, Decoder { experts: Some(experts), ..Decoder::default() })
}

/// Mistral 3: a model that has learned with YaRN's magnitude taken back, as far as the file says, and with a
/// temperature.
pub(super) fn mistral3(b: &mut Builder) -> Result<()> {
    let mut rope = b.configured_rope(Pairing::Interleaved)?;
    let taken_back = b.keys.f32("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
    if let Scaling::Yarn { factor, extrapolation, .. } = b.config.rope_scaling
        && extrapolation != 0.0
    {
        rope.magnitude /= yarn_magnitude(factor, taken_back);
    }
    let temperature = temperature(b)?;
    let query_rope = b.add_rope(Rope { temperature, ..rope.clone() });
    let rope = if temperature.is_some() { b.add_rope(rope) } else { query_rope };
    let experts = Experts::read(b.keys, b.config.feed_forward)?;
    let style =
        AttentionStyle { rope: Some(rope), query_rope: Some(query_rope), ..AttentionStyle::default() };
    decoder(b, style, Decoder { experts, ..Decoder::default() })
}

/// How queries grow with every length of the context that the model began with.
fn temperature(b: &Builder) -> Result<Option<Temperature>> {
    let Some(scale) = b.keys.f32("attention.temperature_scale")?.filter(|scale| *scale != 0.0) else {
        return Ok(None);
    };
    let length = b.keys.size("rope.scaling.original_context_length")?.unwrap_or(b.config.context);
    Temperature::new(b.config, scale, length, 0).map(Some)
}

fn decoder(b: &mut Builder, style: AttentionStyle, decoder: Decoder) -> Result<()> {
    let x = b.embed()?;
    let h = decoder.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
