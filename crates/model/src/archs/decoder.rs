//! The decoder that Llama made common: attention and feed-forward in turn, each adding to the residual stream. Families
//! differ in what is said here, and in the attention of each layer.

use crate::Result;
use crate::build::{AttentionStyle, Bias, Builder, Experts};
use crate::program::{Activation, Map, View};

/// What the layers of a family have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    /// Which norms.
    pub norm: NormKind,
    /// Where each half of a layer is normed.
    pub norms: Norms,
    /// What feed-forward reads.
    pub halves: Halves,
    /// Whether Q, K and V have biases.
    pub qkv_bias: Bias,
    /// The non-linearity of feed-forward.
    pub activation: Activation,
    /// What it is multiplied with.
    pub gate: Gate,
    /// What takes the place of feed-forward in some layers or in all.
    pub experts: Option<Experts>,
    /// The factor of what each half adds.
    pub residual_scale: f32,
    /// The norm before attention.
    pub attn_norm: &'static str,
    /// The tensor of the RMS norm before feed-forward.
    pub ffn_norm: &'static str,
    /// The norm after the last layer.
    pub output_norm: &'static str,
}

/// Which norms a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NormKind {
    /// By the root of the mean square.
    Rms,
    /// The same, and then a bias is added.
    BiasedRms,
    /// Layer norms with biases.
    Layer,
    /// Layer norms without.
    BareLayer,
}

/// Where the halves of a layer are normed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Norms {
    /// What they read.
    Before,
    /// What they give.
    After,
    /// Both.
    Both,
}

/// What the halves of a layer read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halves {
    /// Feed-forward reads what attention has added to.
    InTurn,
    /// Both read the same normed values.
    Parallel,
    /// Both read the same values, each with a norm of its own: that of feed-forward.
    ParallelNorms(&'static str),
}

/// How a feed-forward layer is gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Gate and up are tensors of their own.
    Apart,
    /// Both are one, `ffn_up`.
    InUp,
    /// There is none.
    None(Bias),
}

/// Llama's.
impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            norm: NormKind::Rms,
            norms: Norms::Before,
            halves: Halves::InTurn,
            qkv_bias: Bias::Optional,
            activation: Activation::Silu,
            gate: Gate::Apart,
            experts: None,
            residual_scale: 1.0,
            attn_norm: "attn_norm",
            ffn_norm: "ffn_norm.weight",
            output_norm: "output_norm",
        }
    }
}

impl Decoder {
    /// All layers, and the norm of what they leave in the residual stream `x`.
    pub fn layers(&self, b: &mut Builder, x: View, style: impl Fn(usize) -> AttentionStyle) -> Result<View> {
        self.layers_of(b, x, b.config.layers, |b, layer, h| b.attention(style(layer), h, self.qkv_bias))
    }

    /// The same with something else than attention in the first half of some layers, from the normed input to what is
    /// added.
    pub fn layers_of(
        &self,
        b: &mut Builder,
        x: View,
        layers: usize,
        mixer: impl Fn(&mut Builder, usize, View) -> Result<View>,
    ) -> Result<View> {
        for layer in 0..layers {
            b.enter(layer);
            let h = self.before(b, self.attn_norm, x)?;
            let beside = match self.halves {
                Halves::InTurn => None,
                Halves::Parallel => Some(h),
                Halves::ParallelNorms(name) => Some(self.norm(b, name, x, "ffn_h")?),
            };
            let y = mixer(b, layer, h)?;
            self.after(b, "post_attention_norm", y)?;
            b.map("attn_scale", Map::Scale(self.residual_scale), y);
            b.add("attn_residual", x, y);
            let h = match beside {
                Some(h) => h,
                None if self.norm != NormKind::Rms || self.norms == Norms::After => {
                    self.before(b, "ffn_norm", x)?
                }
                None => b.rms_norm_of(self.ffn_norm, x)?,
            };
            let experts = self.experts.filter(|experts| b.has_experts(experts, layer));
            let y = match self.gate {
                _ if let Some(experts) = experts => b.experts(&experts, self.activation, h)?,
                Gate::Apart => b.gated_feed_forward(self.activation, h)?,
                Gate::InUp => b.fused_feed_forward(self.activation, h)?,
                Gate::None(bias) => b.feed_forward(self.activation, h, bias)?,
            };
            self.after(b, "post_ffw_norm", y)?;
            b.map("ffn_scale", Map::Scale(self.residual_scale), y);
            b.add("ffn_residual", x, y);
        }
        b.leave();
        self.norm(b, self.output_norm, x, "h")
    }

    fn norm(&self, b: &mut Builder, name: &str, x: View, out: &'static str) -> Result<View> {
        let out = b.buffer(out, x.width);
        match self.norm {
            NormKind::Rms => b.rms_norm_into(name, x, out)?,
            NormKind::BiasedRms => b.biased_rms_norm(name, x, out)?,
            NormKind::Layer => b.layer_norm(name, x, out)?,
            NormKind::BareLayer => b.bare_layer_norm(name, x, out)?,
        }
        Ok(out)
    }

    fn before(&self, b: &mut Builder, name: &str, x: View) -> Result<View> {
        if self.norms == Norms::After { Ok(x) } else { self.norm(b, name, x, "h") }
    }

    fn after(&self, b: &mut Builder, name: &str, y: View) -> Result<()> {
        if self.norms == Norms::Before { Ok(()) } else { b.rms_norm_in_place(name, y) }
    }
}
