//! Kimi Linear: a delta rule each row of whose state decays by itself in layers without key heads, and latent attention
//! without positions in the others; experts chosen by sigmoid beside one that every row uses, in all but the first layers.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{Builder, Experts, Latent};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let latent = Latent::read(b, None, 1.0)?;
    let (taps, width) = (b.keys.required("ssm.conv_kernel")?, b.keys.required("kda.head_dim")?);
    let experts = Experts::by_sigmoid(b.keys, b.config.feed_forward)?;
    let experts = Experts { normalised: true, ..experts.with_shared() };
    let decoder = Decoder { experts: Some(experts), ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, b.config.layers, |b, layer, h| match b.config.layer_kv_heads[layer] {
        0 => b.kimi_delta(taps, width, h),
        _ => b.latent_attention(&latent, h),
    })?;
    b.head(h)?;
    Ok(())
}
