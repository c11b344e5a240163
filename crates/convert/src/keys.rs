//! From `config.json` to metadata: tables with a line per key, and what all families have in common.

use gleed_gguf::{Array, Metadata, Value};
use serde_json::Value as Json;

use crate::config::Config;
use crate::error::Result;

/// One key of the metadata and where it comes from.
pub struct Key {
    to: &'static str,
    kind: Kind,
    from: &'static [&'static str],
    required: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Size,
    Float,
    Flag,
}

/// A key that is a size, from the first of these that the configuration has.
pub const fn size(to: &'static str, from: &'static [&'static str]) -> Key {
    Key { to, kind: Kind::Size, from, required: false }
}

/// A key that is a number.
pub const fn float(to: &'static str, from: &'static [&'static str]) -> Key {
    Key { to, kind: Kind::Float, from, required: false }
}

/// A key that is a switch.
pub const fn flag(to: &'static str, from: &'static [&'static str]) -> Key {
    Key { to, kind: Kind::Flag, from, required: false }
}

/// The same key, without which there is no model.
pub const fn required(key: Key) -> Key {
    Key { required: true, ..key }
}

/// What every decoder has.
pub const SHAPE: &[Key] = &[
    required(size("block_count", &["num_hidden_layers", "n_layers", "n_layer", "num_layers"])),
    size(
        "context_length",
        &["max_position_embeddings", "n_ctx", "n_positions", "max_sequence_length", "model_max_length"],
    ),
    required(size("embedding_length", &["hidden_size", "n_embd", "dim"])),
    size("feed_forward_length", &["intermediate_size", "n_inner", "hidden_dim"]),
    required(size("attention.head_count", &["num_attention_heads", "n_head", "n_heads"])),
    size("attention.head_count_kv", &["num_key_value_heads", "n_kv_heads"]),
    float("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]),
    float("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"]),
];

/// How many experts there are.
pub const EXPERT_COUNTS: &[Key] = &[
    size("expert_count", &["num_local_experts", "num_experts", "n_routed_experts"]),
    size("expert_used_count", &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"]),
    size("expert_group_count", &["n_group"]),
    size("expert_group_used_count", &["topk_group"]),
];

/// The sizes of heads, where a configuration has them.
pub const HEADS: &[Key] =
    &[size("attention.key_length", &["head_dim"]), size("attention.value_length", &["head_dim"])];

/// The metadata of a model under construction; keys get its architecture in front.
pub struct Keys {
    architecture: &'static str,
    metadata: Metadata,
}

impl Keys {
    /// Nothing but the architecture yet.
    pub fn new(architecture: &'static str) -> Keys {
        let mut metadata = Metadata::default();
        metadata.set("general.architecture", Value::Str(architecture.to_string()));
        metadata.set("general.type", Value::Str("model".to_string()));
        Keys { architecture, metadata }
    }

    /// What was set.
    pub fn into_metadata(self) -> Metadata {
        self.metadata
    }

    /// Sets a key of the architecture.
    pub fn set(&mut self, key: &str, value: Value) {
        self.metadata.set(format!("{}.{key}", self.architecture), value);
    }

    /// Sets a size.
    pub fn size(&mut self, key: &str, size: u32) {
        self.set(key, Value::U32(size));
    }

    /// Sets a number.
    pub fn float(&mut self, key: &str, number: f64) {
        self.set(key, Value::F32(number as f32));
    }

    /// Sets a switch.
    pub fn flag(&mut self, key: &str, flag: bool) {
        self.set(key, Value::Bool(flag));
    }

    /// Sets a text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.set(key, Value::Str(text.to_string()));
    }

    /// Sets a size for each layer.
    pub fn list(&mut self, key: &str, sizes: Vec<i32>) {
        self.set(key, Value::Array(Array::I32(sizes)));
    }

    /// Sets a switch for each layer.
    pub fn flags(&mut self, key: &str, flags: Vec<bool>) {
        self.set(key, Value::Array(Array::Bool(flags)));
    }

    /// Sets a key that has no architecture in front.
    pub fn set_plain(&mut self, key: &str, value: Value) {
        self.metadata.set(key, value);
    }

    /// Sets all keys of a table that the configuration has.
    pub fn take(&mut self, config: &Config, table: &[Key]) -> Result<()> {
        for key in table {
            let value = match key.kind {
                Kind::Size => match config.value(key.from) {
                    Some(Json::Array(sizes)) => Some(Value::Array(Array::I32(by_layer(config, key, sizes)?))),
                    _ => config.size(key.from)?.map(Value::U32),
                },
                Kind::Float => config.float(key.from)?.map(|number| Value::F32(number as f32)),
                Kind::Flag => config.flag(key.from[0])?.map(Value::Bool),
            };
            match value {
                Some(value) => self.set(key.to, value),
                None if key.required => return Err(config.missing(key.from)),
                None => {}
            }
        }
        Ok(())
    }

    /// Rotation: bases, and scaling of the kinds that are keys.
    pub fn rope(&mut self, config: &Config) -> Result<()> {
        let kind = config.rope_type()?;
        match (kind.as_str(), config.rope_float("factor")?) {
            ("linear", Some(factor)) => {
                self.text("rope.scaling.type", "linear");
                self.float("rope.scaling.factor", factor);
            }
            ("yarn", Some(factor)) => {
                self.text("rope.scaling.type", "yarn");
                self.float("rope.scaling.factor", factor);
                let original = config.rope_size("original_max_position_embeddings")?;
                let original =
                    original.ok_or_else(|| config.missing(&["original_max_position_embeddings"]))?;
                self.size("rope.scaling.original_context_length", original);
                let optional = [
                    ("yarn_ext_factor", &["extrapolation_factor"][..]),
                    ("yarn_attn_factor", &["attention_factor", "attn_factor"]),
                    ("yarn_beta_fast", &["beta_fast"]),
                    ("yarn_beta_slow", &["beta_slow"]),
                ];
                for (key, names) in optional {
                    for name in names {
                        if let Some(number) = config.rope_float(name)? {
                            self.float(&format!("rope.scaling.{key}"), number);
                            break;
                        }
                    }
                }
            }
            ("su" | "longrope", _) => self.text("rope.scaling.type", "longrope"),
            // The factors of llama3 are a tensor; what is left is a family's own or no scaling.
            ("default" | "llama3" | "dynamic" | "proportional" | "mrope", _) => {}
            (other, _) => return Err(config.wrong(format!("rotary scaling of type {other} is not known"))),
        }
        if let Some(base) = config.rope_float("rope_theta")? {
            self.float("rope.freq_base", base);
        }
        if let Some(base) = config.sliding_rope_float("rope_theta")? {
            self.float("rope.freq_base_swa", base);
        }
        Ok(())
    }

    /// How experts' scores become weights, where the configuration says it.
    pub fn gating(&mut self, config: &Config) -> Result<()> {
        let names = ["score_function", "scoring_func", "score_func", "moe_router_activation_func"];
        match config.text(&names)? {
            None => {}
            Some("softmax") => self.size("expert_gating_func", 1),
            Some("sigmoid") => self.size("expert_gating_func", 2),
            Some(other) => return Err(config.wrong(format!("scores of experts by {other} are not known"))),
        }
        Ok(())
    }
}

/// A size for each layer.
fn by_layer(config: &Config, key: &Key, sizes: &[Json]) -> Result<Vec<i32>> {
    let sizes = sizes.iter().map(|size| size.as_i64().and_then(|size| i32::try_from(size).ok()));
    sizes.collect::<Option<_>>().ok_or_else(|| {
        config.wrong(format!("key {} must be an integer, or one for each layer", key.from.join(" or ")))
    })
}
