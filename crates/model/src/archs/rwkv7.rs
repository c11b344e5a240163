//! RWKV 7 ("Goose"): a generalised delta rule in the place of attention and a feed-forward layer, both of which read a
//! blend of each row and the one before it. Layers after the first take a share of the first layer's values.

use crate::Result;
use crate::build::{Builder, Receptance};

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let sizes = Receptance::read(b)?;
    let x = b.embed()?;
    b.layer_norm("token_embd_norm", x, x)?;
    let h = b.buffer("h", x.width);
    for layer in 0..b.config.layers {
        b.enter(layer);
        b.layer_norm("attn_norm", x, h)?;
        let y = b.time_mix(sizes, layer == 0, h)?;
        b.add("attn_residual", x, y);
        b.layer_norm("attn_norm_2", x, h)?;
        let y = b.channel_mix(h)?;
        b.add("ffn_residual", x, y);
    }
    b.leave();
    b.layer_norm("output_norm", x, h)?;
    b.head(h)?;
    Ok(())
}
