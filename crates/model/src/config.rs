//! A model's hyper-parameters, read from the metadata of its file.

use gleed_gguf::Metadata;

use crate::keys::Keys;
use crate::rope::Scaling;
use crate::{Error, Result};

/// The hyper-parameters that all dense transformer families share.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, when the file has one.
    pub name: Option<String>,
    /// Transformer blocks that the next token goes through.
    pub layers: usize,
    /// Blocks after them that guess at tokens after the next one, and are not used.
    pub guessing_layers: usize,
    /// Values per token between blocks.
    pub width: usize,
    /// Positions that the model was made for.
    pub context: usize,
    /// Positions that it will be used for, which are no more.
    pub used_context: usize,
    /// Query heads, of the layer that has most; 0 in a model without attention.
    pub heads: usize,
    /// Query heads of each layer.
    pub layer_heads: Vec<usize>,
    /// Key and value heads, of the layer that has most.
    pub kv_heads: usize,
    /// Key and value heads of each layer; 0 in layers without attention.
    pub layer_kv_heads: Vec<usize>,
    /// Values per query and key head.
    pub key_dim: usize,
    /// Values per value head.
    pub value_dim: usize,
    /// Values inside a feed-forward layer, of the layer that has most; 0 in a model without them.
    pub feed_forward: usize,
    /// Values inside each layer's feed-forward; 0 in layers without one.
    pub layer_feed_forward: Vec<usize>,
    /// Added to the mean square in norms.
    pub norm_epsilon: f32,
    /// The base of the rotary frequencies.
    pub rope_base: f32,
    /// Rotated values per head.
    pub rope_dimensions: usize,
    /// How the rotary frequencies were stretched.
    pub rope_scaling: Scaling,
}

/// More of anything than this is a broken file, not a model.
pub(crate) const MOST: usize = 1 << 24;

impl Config {
    /// Reads the configuration of whatever architecture the metadata names.
    pub fn read(metadata: &Metadata) -> Result<Config> {
        Config::from_keys(&Keys::new(metadata)?)
    }

    pub(crate) fn from_keys(keys: &Keys) -> Result<Config> {
        let width = keys.required("embedding_length")?;
        let guessing_layers = keys.size("nextn_predict_layers")?.unwrap_or(0);
        let layers = keys.required("block_count")?.saturating_sub(guessing_layers);
        if layers > MOST {
            return Err(Error::Invalid(format!("{} layers: not a model", layers)));
        }
        let most = |sizes: &[usize]| sizes.iter().copied().max().unwrap_or(0);
        let mut layer_heads = keys.of_layers("attention.head_count", layers)?;
        layer_heads.resize(layers, 0);
        let heads = most(&layer_heads);
        let mut layer_kv_heads = keys.of_layers("attention.head_count_kv", layers)?;
        if layer_kv_heads.is_empty() {
            layer_kv_heads.clone_from(&layer_heads);
        }
        let layer_feed_forward = keys.of_layers("feed_forward_length", layers)?;
        let default_dim = width.checked_div(heads).unwrap_or(0);
        let key_dim = keys.size("attention.key_length")?.unwrap_or(default_dim);
        let context = keys.required("context_length")?;
        let config = Config {
            architecture: keys.architecture().to_string(),
            name: keys.model_name()?.map(str::to_string),
            layers,
            guessing_layers,
            width,
            context,
            used_context: context,
            heads,
            layer_heads,
            kv_heads: most(&layer_kv_heads),
            layer_kv_heads,
            key_dim,
            value_dim: keys.size("attention.value_length")?.unwrap_or(default_dim),
            feed_forward: most(&layer_feed_forward),
            layer_feed_forward,
            // Some files have both: which norm it is depends on the family.
            norm_epsilon: match (
                keys.f32("attention.layer_norm_rms_epsilon")?,
                keys.f32("attention.layer_norm_epsilon")?,
            ) {
                (Some(epsilon), _) => epsilon,
                (None, _) => keys.required_f32("attention.layer_norm_epsilon")?,
            },
            rope_base: keys.f32("rope.freq_base")?.unwrap_or(10_000.0),
            rope_dimensions: keys.size("rope.dimension_count")?.unwrap_or(key_dim),
            rope_scaling: scaling(keys)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Query heads that share one key and value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn check(&self) -> Result<()> {
        let attention = [
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.key_dim),
            ("attention.value_length", self.value_dim),
        ];
        // Whether a model has feed-forward layers and attention, its family knows.
        let needed = [("embedding_length", self.width)];
        let given = [("feed_forward_length", self.feed_forward)];
        let attention = attention.iter().filter(|_| self.heads > 0).map(|(key, size)| (key, *size, 1));
        let sizes = needed.iter().map(|(key, size)| (key, *size, 1));
        let sizes = sizes.chain(given.iter().map(|(key, size)| (key, *size, 0))).chain(attention);
        for (key, size, least) in sizes {
            if size < least || size > MOST {
                return Err(Error::Invalid(format!("{}.{key} is {size}: not a model", self.architecture)));
            }
        }
        for (heads, &kv_heads) in self.layer_heads.iter().zip(&self.layer_kv_heads) {
            if kv_heads > 0 && !heads.is_multiple_of(kv_heads) {
                return Err(Error::Invalid(format!(
                    "{heads} query heads cannot share {kv_heads} key-value heads evenly"
                )));
            }
        }
        if self.rope_dimensions > self.key_dim {
            return Err(Error::Invalid(format!(
                "{}.rope.dimension_count is {}, more than the {} values of a head",
                self.architecture, self.rope_dimensions, self.key_dim
            )));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon >= 0.0) {
            return Err(Error::Invalid(format!("the norm's epsilon is {}", self.norm_epsilon)));
        }
        Ok(())
    }
}

/// `rope.scaling.*`, with `rope.scale_linear` as older files write it.
fn scaling(keys: &Keys) -> Result<Scaling> {
    let older = keys.f32("rope.scale_linear")?;
    // A factor of zero means that the writer had none.
    let factor = keys.f32("rope.scaling.factor")?.or(older).filter(|f| *f != 0.0);
    // What only YaRN asks for says nothing under another scaling.
    let original_context = keys.size("rope.scaling.original_context_length")?;
    let beta_fast = keys.f32("rope.scaling.yarn_beta_fast")?;
    let beta_slow = keys.f32("rope.scaling.yarn_beta_slow")?;
    let extrapolation = keys.f32("rope.scaling.yarn_ext_factor")?;
    match (keys.str("rope.scaling.type")?, factor) {
        // The factors of longrope are tensors.
        (Some("none" | "longrope"), _) | (Some("linear") | None, None) => Ok(Scaling::None),
        (Some("linear") | None, Some(factor)) => Ok(Scaling::Linear { factor }),
        (Some("yarn"), factor) => Ok(Scaling::Yarn {
            factor: factor.unwrap_or(1.0),
            original_context: match original_context {
                Some(context) if context > 0 => context,
                _ => keys.required("context_length")?,
            },
            beta_fast: beta_fast.unwrap_or(32.0),
            beta_slow: beta_slow.unwrap_or(1.0),
            extrapolation: extrapolation.unwrap_or(1.0),
            attention: keys.f32("rope.scaling.attn_factor")?.unwrap_or(1.0),
        }),
        (Some(other), _) => Err(Error::Invalid(format!(
            "rotary scaling {other} is not known; known: none, linear, yarn, longrope"
        ))),
    }
}
