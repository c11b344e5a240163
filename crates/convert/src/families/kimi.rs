//! Kimi Linear: a delta rule in three of four layers, attention over a latent vector in the fourth, and experts.

use serde_json::Value as Json;

use super::{Family, PLAIN, common, deepseek, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::{Convolution, NegativeExp};
use crate::names::{BLOCKS, LLAMA, Rule, changed, rule};

const DELTA: &[Rule] = &[
    changed("model.layers.#.self_attn.q_conv1d", "blk.#.ssm_conv1d_q", Convolution),
    changed("model.layers.#.self_attn.k_conv1d", "blk.#.ssm_conv1d_k", Convolution),
    changed("model.layers.#.self_attn.v_conv1d", "blk.#.ssm_conv1d_v", Convolution),
    changed("model.layers.#.self_attn.A_log", "blk.#.ssm_a", NegativeExp),
    rule("model.layers.#.self_attn.dt_bias", "blk.#.ssm_dt.bias"),
    rule("model.layers.#.self_attn.b_proj", "blk.#.ssm_beta"),
    rule("model.layers.#.self_attn.f_a_proj", "blk.#.ssm_f_a"),
    rule("model.layers.#.self_attn.f_b_proj", "blk.#.ssm_f_b"),
    rule("model.layers.#.self_attn.g_a_proj", "blk.#.ssm_g_a"),
    rule("model.layers.#.self_attn.g_b_proj", "blk.#.ssm_g_b"),
    rule("model.layers.#.self_attn.o_norm", "blk.#.ssm_norm"),
    rule("model.layers.#.block_sparse_moe.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"),
    rule("model.layers.#.block_sparse_moe.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"),
    rule("model.layers.#.block_sparse_moe.shared_experts.up_proj", "blk.#.ffn_up_shexp"),
    rule("model.layers.#.block_sparse_moe.shared_experts.down_proj", "blk.#.ffn_down_shexp"),
];

const KEYS: &[Key] = &[
    size("attention.q_lora_rank", &["q_lora_rank"]),
    required(size("attention.kv_lora_rank", &["kv_lora_rank"])),
    size("attention.value_length", &["head_dim"]),
    required(size("attention.value_length_mla", &["v_head_dim"])),
    required(size("rope.dimension_count", &["qk_rope_head_dim"])),
    required(size("expert_feed_forward_length", &["moe_intermediate_size"])),
    required(size("expert_shared_count", &["num_shared_experts"])),
    required(size("leading_dense_block_count", &["first_k_dense_replace"])),
    required(float("expert_weights_scale", &["routed_scaling_factor"])),
    required(size("ssm.conv_kernel", &["linear_conv_kernel_dim"])),
    required(size("kda.head_dim", &["linear_head_dim"])),
];

pub const FAMILIES: &[Family] = &[Family {
    models: &["KimiLinearForCausalLM"],
    architecture: "kimi-linear",
    defaults: |config| {
        // What the model's own code keeps in a part of its own.
        let part = config.value(&["linear_attn_config"]).cloned().unwrap_or_default();
        for (from, to) in
            [("short_conv_kernel_size", "linear_conv_kernel_dim"), ("head_dim", "linear_head_dim")]
        {
            if let Some(value) = part.get(from) {
                config.set_default(to, value.clone());
            }
        }
        config.set_default("moe_router_activation_func", "sigmoid");
        config.set_default("first_k_dense_replace", 1);
        Ok(())
    },
    keys: &[SHAPE, EXPERT_COUNTS, KEYS],
    more,
    tensors: &[DELTA, deepseek::LATENT, BLOCKS, LLAMA],
    ..PLAIN
}];

fn more(config: &Config, keys: &mut Keys) -> Result<()> {
    for key in ["moe_renormalize", "mla_use_nope"] {
        if config.flag(key)? == Some(false) {
            return Err(config.wrong(format!("key {key} must be true")));
        }
    }
    common(config, keys)?;
    vocabulary_size(config, keys)?;
    let told = |key: &str| config.require_size(&[key]);
    let rotated = told("qk_rope_head_dim")?;
    keys.size("attention.key_length", told("kv_lora_rank")?.saturating_add(rotated));
    keys.size("attention.key_length_mla", told("qk_nope_head_dim")?.saturating_add(rotated));
    let layers = config.layers()?;
    let kinds: Vec<bool> = match config.list("layer_types")? {
        Some(kinds) => kinds.iter().map(|kind| kind == "full_attention").collect(),
        None => {
            // Numbered from one.
            let part = config.value(&["linear_attn_config"]).and_then(|part| part.get("full_attn_layers"));
            let listed = part.and_then(Json::as_array).ok_or_else(|| config.missing(&["layer_types"]))?;
            let listed: Vec<u64> = listed.iter().filter_map(Json::as_u64).collect();
            (1..=u64::from(layers)).map(|layer| listed.contains(&layer)).collect()
        }
    };
    // All heads share the latent vector: to the cache it is one head of keys.
    keys.list("attention.head_count_kv", kinds.into_iter().map(i32::from).collect());
    Ok(())
}
