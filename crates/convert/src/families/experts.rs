//! Mixtures of experts of a few lines each: GLM 4.5, dots.llm1, MiniMax M2, ERNIE 4.5, K-EXAONE, Phi 3.5 MoE, Trinity,
//! Hunyuan.

use super::{Family, PLAIN, Vocabulary, common, dense, llama, phi, rotated_share, vocabulary_size, windows};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, SHAPE, flag, float, required, size};
use crate::names::{BLOCKS, EXPERTS, LLAMA, Rule, rule};

/// What routers choose, and how much of it.
const ROUTING: &[Key] = &[
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_count", &["n_shared_experts", "num_shared_experts"]),
    size("leading_dense_block_count", &["first_k_dense_replace", "num_dense_layers"]),
    float("expert_weights_scale", &["routed_scaling_factor", "route_scale"]),
    flag("expert_weights_norm", &["norm_topk_prob"]),
];

const GLM: &[Rule] = &[rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm")];

const MINIMAX_KEYS: &[Key] = &[
    required(size("expert_feed_forward_length", &["intermediate_size"])),
    required(size("rope.dimension_count", &["rotary_dim"])),
];

const ERNIE: &[Rule] =
    &[rule("model.layers.#.mlp.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias")];

const ERNIE_KEYS: &[Key] = &[
    required(size("expert_count", &["moe_num_experts"])),
    required(size("expert_used_count", &["moe_k"])),
    required(size("interleave_moe_layer_step", &["moe_layer_interval"])),
    required(size("leading_dense_block_count", &["moe_layer_start_index"])),
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_count", &["moe_num_shared_experts"]),
];

const EXAONE: &[Rule] = &[rule("model.layers.#.mlp.e_score_correction_bias", "blk.#.exp_probs_b.bias")];

const TRINITY: &[Rule] = &[
    rule("model.layers.#.self_attn.gate_proj", "blk.#.attn_gate"),
    rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"),
    rule("model.layers.#.pre_mlp_layernorm", "blk.#.ffn_norm"),
    rule("model.layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"),
    rule("model.layers.#.mlp.router.gate", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.mlp.expert_bias", "blk.#.exp_probs_b.bias"),
];

const TRINITY_KEYS: &[Key] =
    &[flag("expert_weights_norm", &["route_norm"]), size("attention.sliding_window", &["sliding_window"])];

const HUNYUAN: &[Rule] = &[
    rule("model.layers.#.mlp.gate.wg", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.mlp.shared_mlp.gate_proj", "blk.#.ffn_gate_shexp"),
    rule("model.layers.#.mlp.shared_mlp.up_proj", "blk.#.ffn_up_shexp"),
    rule("model.layers.#.mlp.shared_mlp.down_proj", "blk.#.ffn_down_shexp"),
];

const HUNYUAN_KEYS: &[Key] = &[required(size("expert_shared_feed_forward_length", &["intermediate_size"]))];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Glm4MoeForCausalLM"],
        architecture: "glm4moe",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, ROUTING],
        more: |config, keys| {
            common(config, keys)?;
            keys.size("expert_gating_func", 2);
            rotated_share(config, keys, 0.5)
        },
        tensors: &[GLM, EXPERTS, LLAMA],
        vocabulary: Vocabulary {
            roles: &[
                ("bos", "[gMASK]"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("eom", "<|observation|>"),
            ],
            ..PLAIN.vocabulary
        },
        ..PLAIN
    },
    Family {
        models: &["Dots1ForCausalLM"],
        architecture: "dots1",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, ROUTING],
        tensors: &[EXPERTS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["MiniMaxM2ForCausalLM"],
        architecture: "minimax-m2",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, MINIMAX_KEYS],
        tensors: &[BLOCKS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["Ernie4_5_MoeForCausalLM"],
        architecture: "ernie4_5-moe",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, ERNIE_KEYS],
        more: |config, keys| {
            common(config, keys)?;
            if let Some(shared) = config.size(&["moe_num_shared_experts"])?.filter(|&count| count > 0) {
                let width = config.require_size(&["moe_intermediate_size"])?;
                keys.size("expert_shared_feed_forward_length", width.saturating_mul(shared));
            }
            Ok(())
        },
        tensors: &[ERNIE, EXPERTS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"],
        architecture: "exaone-moe",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, ROUTING],
        more: |config, keys| {
            common(config, keys)?;
            vocabulary_size(config, keys)?;
            windows(config, keys)?;
            let shared = config.require_size(&["num_shared_experts"])?;
            let width = config.require_size(&["moe_intermediate_size"])?;
            keys.size("expert_shared_feed_forward_length", width.saturating_mul(shared));
            keys.size("nextn_predict_layers", 0);
            keys.text("rope.scaling.type", "none");
            Ok(())
        },
        tensors: &[EXAONE, EXPERTS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["PhimoeForCausalLM", "PhiMoEForCausalLM"],
        architecture: "phimoe",
        keys: &[SHAPE, EXPERT_COUNTS],
        tensors: &[BLOCKS, LLAMA],
        ..phi::THIRD
    },
    Family {
        models: &["AfmoeForCausalLM"],
        architecture: "afmoe",
        defaults: |config| {
            // What newer configurations do not say any more.
            config.set_default("route_norm", true);
            Ok(())
        },
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, ROUTING, TRINITY_KEYS],
        more: |config, keys| {
            if config.flag("mup_enabled")? == Some(false) {
                return Err(config.wrong("key mup_enabled: must be true, embeddings are scaled"));
            }
            llama::more(config, keys)
        },
        tensors: &[TRINITY, EXPERTS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["HunYuanMoEV1ForCausalLM"],
        architecture: "hunyuan-moe",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, HUNYUAN_KEYS],
        more: |config, keys| {
            common(config, keys)?;
            // Newer configurations leave out what is usual.
            let used = in_all_layers(config, "moe_topk")?.ok_or_else(|| config.missing(&["moe_topk"]))?;
            keys.size("expert_used_count", used);
            let width = match in_all_layers(config, "moe_intermediate_size")? {
                Some(width) => width,
                None => config.require_size(&["intermediate_size"])?,
            };
            keys.size("expert_feed_forward_length", width);
            keys.size("expert_shared_count", in_all_layers(config, "num_shared_expert")?.unwrap_or(1));
            dense::hunyuan_base(config, keys, 1000.0)
        },
        tensors: &[HUNYUAN, dense::HUNYUAN, EXPERTS, LLAMA],
        ..PLAIN
    },
];

/// A size that a configuration may give for each layer, and that must be the same in all.
fn in_all_layers(config: &Config, key: &'static str) -> Result<Option<u32>> {
    let Some(serde_json::Value::Array(sizes)) = config.value(&[key]) else { return config.size(&[key]) };
    match &sizes[..] {
        [first, rest @ ..] if rest.iter().all(|size| size == first) => {
            Ok(first.as_u64().and_then(|size| u32::try_from(size).ok()))
        }
        _ => Err(config.wrong(format!("key {key} must be the same in all layers"))),
    }
}
