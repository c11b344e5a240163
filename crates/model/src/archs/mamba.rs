//! Mamba 1 (and FalconMamba, which norms what a scan is steered by) and Mamba 2: state-space layers and nothing else.

use crate::Result;
use crate::build::Builder;
use crate::program::View;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    let norms = b.keys.bool("ssm.dt_b_c_rms")?.unwrap_or(false);
    layers(b, |b, h| b.mamba(sizes, norms, h))
}

pub(super) fn second(b: &mut Builder) -> Result<()> {
    let sizes = b.state_space()?;
    layers(b, |b, h| b.mamba2(sizes, h))
}

fn layers(b: &mut Builder, mixer: impl Fn(&mut Builder, View) -> Result<View>) -> Result<()> {
    let x = b.embed()?;
    for layer in 0..b.config.layers {
        b.enter(layer);
        let h = b.rms_norm("attn_norm", x)?;
        let y = mixer(b, h)?;
        b.add("residual", x, y);
    }
    b.leave();
    let h = b.rms_norm("output_norm", x)?;
    b.head(h)?;
    Ok(())
}
