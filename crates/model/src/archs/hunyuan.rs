//! Hunyuan, dense and with experts beside one that every row uses: Llama's decoder with split-half rotary pairs, whose
//! heads of Q and K are normed when they have been rotated.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::Pairing;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    decoder(b, None)
}

pub(super) fn experts(b: &mut Builder) -> Result<()> {
    let c = b.config;
    let experts = Experts::required(b.keys, c.feed_forward)?;
    let shared = if experts.shared > 0 { experts.shared } else { c.feed_forward };
    decoder(b, Some(Experts { shared, ..experts }))
}

fn decoder(b: &mut Builder, experts: Option<Experts>) -> Result<()> {
    let rope = b.rope(Pairing::SplitHalf)?;
    let style =
        AttentionStyle { rope: Some(rope), norms: QueryNorms::HeadsAfterRope, ..AttentionStyle::default() };
    let x = b.embed()?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |_| style)?;
    b.head(h)?;
    Ok(())
}
