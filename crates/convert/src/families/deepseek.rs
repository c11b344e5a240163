//! DeepSeek V2 and V3 (with R1): attention over a latent vector, whose matrix is cut into keys and values.

use super::{Family, PLAIN, common, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::{LatentKeys, LatentValues};
use crate::names::{EXPERTS, LLAMA, Rule, changed, rule};

const LATENT: &[Rule] = &[
    rule("model.layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"),
    rule("model.layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"),
    rule("model.layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"),
    rule("model.layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa"),
    rule("model.layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"),
    changed("model.layers.#.self_attn.kv_b_proj", "blk.#.attn_k_b", LatentKeys),
    changed("model.layers.#.self_attn.kv_b_proj", "blk.#.attn_v_b", LatentValues),
];

const KEYS: &[Key] = &[
    size("attention.q_lora_rank", &["q_lora_rank"]),
    required(size("attention.kv_lora_rank", &["kv_lora_rank"])),
    required(size("attention.value_length", &["kv_lora_rank"])),
    required(size("attention.value_length_mla", &["v_head_dim"])),
    required(size("expert_feed_forward_length", &["moe_intermediate_size", "intermediate_size"])),
    float("expert_weights_scale", &["routed_scaling_factor"]),
    required(size("rope.dimension_count", &["qk_rope_head_dim"])),
];

pub const FAMILIES: &[Family] = &[Family {
    models: &["DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"],
    architecture: "deepseek2",
    defaults: |config| {
        config.set_default("rms_norm_eps", 1e-6);
        config.set_default("kv_lora_rank", 512);
        Ok(())
    },
    keys: &[SHAPE, EXPERT_COUNTS, KEYS],
    more,
    tensors: &[LATENT, EXPERTS, LLAMA],
    ..PLAIN
}];

fn more(config: &Config, keys: &mut Keys) -> Result<()> {
    common(config, keys)?;
    vocabulary_size(config, keys)?;
    // All heads share the latent vector: to the cache it is one head of keys.
    keys.size("attention.head_count_kv", 1);
    let (rank, rotated) =
        (config.require_size(&["kv_lora_rank"])?, config.require_size(&["qk_rope_head_dim"])?);
    keys.size("attention.key_length", rank.saturating_add(rotated));
    let plain = config.require_size(&["qk_nope_head_dim"])?;
    keys.size("attention.key_length_mla", plain.saturating_add(rotated));
    let dense = match config.size(&["first_k_dense_replace"])? {
        Some(dense) => dense,
        None if config.size(&["n_routed_experts"])?.is_some() => 0,
        None => config.layers()?,
    };
    keys.size("leading_dense_block_count", dense);
    keys.size("expert_shared_count", config.size(&["n_shared_experts"])?.unwrap_or(0));
    if config.flag("norm_topk_prob")? == Some(true) {
        keys.flag("expert_weights_norm", true);
    }
    if let Some(scale) = config.rope_float("mscale_all_dim")? {
        keys.float("rope.scaling.yarn_log_multiplier", 0.1 * scale);
    }
    Ok(())
}
