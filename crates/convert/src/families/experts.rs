//! Mixtures of experts of a few lines each: GLM 4.5, dots.llm1, MiniMax M2, ERNIE 4.5, K-EXAONE, Phi 3.5 MoE, Trinity,
//! Hunyuan, Hy3, Laguna.

use super::{Family, PLAIN, Vocabulary, common, dense, llama, phi, rotated_share, vocabulary_size, windows};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, flag, float, required, size};
use crate::names::{BLOCKS, EXPERTS, LLAMA, Rule, rule};
use crate::vocabulary::CONTROL;

/// What routers choose, and how much of it.
const ROUTING: &[Key] = &[
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_count", &["n_shared_experts", "num_shared_experts"]),
    size("leading_dense_block_count", &["first_k_dense_replace", "num_dense_layers"]),
    float("expert_weights_scale", &["routed_scaling_factor", "route_scale"]),
    flag("expert_weights_norm", &["norm_topk_prob"]),
];

const GLM: &[Rule] = &[rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm")];

pub(super) const GLM_VOCABULARY: Vocabulary = Vocabulary {
    roles: &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")],
    ..PLAIN.vocabulary
};

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

const HY3: &[Rule] = &[
    rule("model.layers.#.mlp.router.gate", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.mlp.expert_bias", "blk.#.exp_probs_b"),
];

const HY3_KEYS: &[Key] = &[
    required(size("expert_feed_forward_length", &["moe_intermediate_size"])),
    flag("expert_weights_norm", &["route_norm"]),
    float("expert_weights_scale", &["router_scaling_factor"]),
];

const LAGUNA: &[Rule] = &[
    rule("model.layers.#.self_attn.g_proj", "blk.#.attn_gate"),
    rule("model.layers.#.mlp.experts.e_score_correction_bias", "blk.#.exp_probs_b.bias"),
];

const LAGUNA_KEYS: &[Key] = &[
    size("attention.head_count", &["num_attention_heads_per_layer"]),
    size("attention.sliding_window", &["sliding_window"]),
    required(size("expert_feed_forward_length", &["moe_intermediate_size"])),
    required(size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"])),
    required(float("expert_weights_scale", &["moe_routed_scaling_factor"])),
];

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
        vocabulary: GLM_VOCABULARY,
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
        // Its configuration has another number.
        vocabulary: Vocabulary { roles: &[("bos", "<|bos|>")], ..PLAIN.vocabulary },
        ..PLAIN
    },
    Family {
        models: &["HYV3ForCausalLM"],
        architecture: "hy_v3",
        defaults: |config| {
            config.set_default("route_norm", true);
            config.set_default("router_scaling_factor", 1.0);
            Ok(())
        },
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, HY3_KEYS],
        more: |config, keys| {
            common(config, keys)?;
            keys.size("expert_gating_func", 2);
            let shared = config.size(&["num_shared_experts"])?.unwrap_or(1);
            let width = config.require_size(&["moe_intermediate_size"])?;
            keys.size("expert_shared_feed_forward_length", width.saturating_mul(shared));
            Ok(())
        },
        tensors: &[HY3, HUNYUAN, EXPERTS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["LagunaForCausalLM"],
        architecture: "laguna",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, LAGUNA_KEYS],
        more: laguna,
        tensors: &[LAGUNA, EXPERTS, LLAMA],
        vocabulary: Vocabulary { kinds: &[("</assistant>", CONTROL)], lists_ends: true, ..PLAIN.vocabulary },
        ..PLAIN
    },
];

fn laguna(config: &Config, keys: &mut Keys) -> Result<()> {
    let types = config.list("layer_types")?.unwrap_or_default();
    if types.iter().enumerate().any(|(layer, kind)| (kind == "full_attention") != (layer % 4 == 0)) {
        return Err(
            config.wrong("key layer_types: only every fourth layer, from the first on, can see everything")
        );
    }
    let kinds = config.list("mlp_layer_types")?.ok_or_else(|| config.missing(&["mlp_layer_types"]))?;
    let dense = kinds.iter().take_while(|kind| *kind == "dense").count();
    if kinds[dense..].iter().any(|kind| kind == "dense") {
        return Err(config.wrong("key mlp_layer_types: layers without experts come first"));
    }
    common(config, keys)?;
    vocabulary_size(config, keys)?;
    keys.size("expert_gating_func", 2);
    keys.flag("expert_weights_norm", true);
    keys.size("leading_dense_block_count", dense as u32);
    rotated_share(config, keys, 1.0)?;
    let share = config.sliding_rope_float("partial_rotary_factor")?.unwrap_or(1.0);
    keys.size("rope.dimension_count_swa", (f64::from(config.head_size()?) * share) as u32);
    Ok(())
}

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
