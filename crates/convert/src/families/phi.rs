//! Phi 2 and Phi 3 (with Phi 4, which is the same): joined matrices, rotary factors for long and short texts.

use super::{Family, PLAIN, Vectors, Vocabulary, rotated_share};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{Key, Keys, SHAPE, float, required, size};
use crate::names::{LLAMA, Rule, rule};

const JOINED: &[Rule] = &[
    rule("model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"),
    rule("model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"),
];

const SECOND: &[Rule] = &[
    rule("model.final_layernorm", "output_norm"),
    rule("model.layers.#.self_attn.dense", "blk.#.attn_output"),
    rule("model.layers.#.mlp.fc1", "blk.#.ffn_up"),
    rule("model.layers.#.mlp.fc2", "blk.#.ffn_down"),
];

const SECOND_KEYS: &[Key] = &[
    required(size("block_count", &["num_hidden_layers", "n_layer"])),
    required(size("context_length", &["n_positions", "max_position_embeddings"])),
    required(size("embedding_length", &["hidden_size", "n_embd"])),
    required(size("attention.head_count", &["num_attention_heads", "n_head"])),
    required(size("attention.head_count_kv", &["num_attention_heads", "n_head"])),
    required(float("attention.layer_norm_epsilon", &["layer_norm_epsilon", "layer_norm_eps"])),
];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["PhiForCausalLM"],
        architecture: "phi2",
        keys: &[SECOND_KEYS],
        more: |config, keys| {
            keys.size(
                "feed_forward_length",
                config.require_size(&["hidden_size", "n_embd"])?.saturating_mul(4),
            );
            rotated_share(config, keys, 0.5)
        },
        tensors: &[SECOND, LLAMA],
        vocabulary: Vocabulary { adds: &[("bos", false)], ..PLAIN.vocabulary },
        ..PLAIN
    },
    Family { models: &["Phi3ForCausalLM"], architecture: "phi3", tensors: &[JOINED, LLAMA], ..THIRD },
];

/// Phi 3, with and without experts.
pub(super) const THIRD: Family = Family {
    keys: &[SHAPE],
    more: third,
    vectors: factors,
    vocabulary: Vocabulary { as_written: true, ..PLAIN.vocabulary },
    ..PLAIN
};

/// The context that the model was first trained for, and the one it is for now.
fn contexts(config: &Config) -> Result<(u32, u32)> {
    let now = config.require_size(&["n_positions", "max_position_embeddings"])?;
    let first = config.rope_size("original_max_position_embeddings")?;
    Ok((first.ok_or_else(|| config.missing(&["original_max_position_embeddings"]))?, now))
}

fn third(config: &Config, keys: &mut Keys) -> Result<()> {
    let (first, now) = contexts(config)?;
    keys.size("rope.scaling.original_context_length", first);
    rotated_share(config, keys, 1.0)?;
    let base = config.rope_float("rope_theta")?;
    keys.float("rope.freq_base", base.ok_or_else(|| config.missing(&["rope_theta"]))?);
    // 0 tells Phi 4, which sees everything, from those that see a window.
    keys.size("attention.sliding_window", config.size(&["sliding_window"])?.unwrap_or(0));
    if config.rope_floats("long_factor")?.is_some() {
        let (first, scale) = (f64::from(first), f64::from(now) / f64::from(first));
        let factor = match config.rope_type()?.as_str() {
            _ if scale <= 1.0 => 1.0,
            "su" | "longrope" => (1.0 + scale.ln() / first.ln()).sqrt(),
            "yarn" => 0.1 * scale.ln() + 1.0,
            other => return Err(config.wrong(format!("rotary scaling of type {other} is not known"))),
        };
        keys.float("rope.scaling.attn_factor", factor);
    }
    Ok(())
}

pub(super) fn factors(config: &Config) -> Result<Vectors> {
    let Some(long) = config.rope_floats("long_factor")? else { return Ok(Vec::new()) };
    let short = config.rope_floats("short_factor")?.ok_or_else(|| config.missing(&["short_factor"]))?;
    Ok(vec![("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
}
