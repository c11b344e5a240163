//! DeepSeek V2 and V3 (with R1): attention over a latent vector, whose matrix is cut into keys and values; DeepSeek V3.2 and
//! GLM 5, which choose positions by an indexer, Mistral 4, and MiniCPM 3, whose matrix is whole.

use super::{Family, PLAIN, common, experts, phi, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::{LatentKeys, LatentValues};
use crate::names::{EXPERTS, LLAMA, Rule, changed, rule};

pub(super) const LATENT: &[Rule] = &[
    rule("model.layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"),
    rule("model.layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"),
    rule("model.layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"),
    rule("model.layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa"),
    rule("model.layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"),
    changed("model.layers.#.self_attn.kv_b_proj", "blk.#.attn_k_b", LatentKeys),
    changed("model.layers.#.self_attn.kv_b_proj", "blk.#.attn_v_b", LatentValues),
];

/// Keys and values in one matrix.
const WHOLE: &[Rule] = &[rule("model.layers.#.self_attn.kv_b_proj", "blk.#.attn_kv_b")];

const MINICPM_KEYS: &[Key] = &[
    size("attention.q_lora_rank", &["q_lora_rank"]),
    required(size("attention.kv_lora_rank", &["kv_lora_rank"])),
    required(size("rope.dimension_count", &["qk_rope_head_dim"])),
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

const INDEXER: &[Rule] = &[
    rule("model.layers.#.self_attn.indexer.wq_b", "blk.#.indexer.attn_q_b"),
    rule("model.layers.#.self_attn.indexer.wk", "blk.#.indexer.attn_k"),
    rule("model.layers.#.self_attn.indexer.k_norm", "blk.#.indexer.k_norm"),
    rule("model.layers.#.self_attn.indexer.weights_proj", "blk.#.indexer.proj"),
];

const INDEXER_KEYS: &[Key] = &[
    required(size("attention.indexer.head_count", &["index_n_heads"])),
    required(size("attention.indexer.key_length", &["index_head_dim"])),
    required(size("attention.indexer.top_k", &["index_topk"])),
];

/// Gates and ups of all experts stay in one tensor.
const JOINED: &[Rule] = &[rule("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight")];

const BASE: Family = Family {
    architecture: "deepseek2",
    defaults: |config| {
        config.set_default("rms_norm_eps", 1e-6);
        config.set_default("kv_lora_rank", 512);
        // What newer configurations do not say any more.
        if ["DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Glm4MoeLiteForCausalLM"]
            .contains(&config.model()?)
        {
            config.set_default("scoring_func", "sigmoid");
        }
        Ok(())
    },
    keys: &[SHAPE, EXPERT_COUNTS, KEYS],
    more,
    tensors: &[LATENT, EXPERTS, LLAMA],
    ..PLAIN
};

pub const FAMILIES: &[Family] = &[
    Family { models: &["DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"], ..BASE },
    Family { models: &["Glm4MoeLiteForCausalLM"], vocabulary: experts::GLM_VOCABULARY, ..BASE },
    Family {
        models: &["DeepseekV32ForCausalLM"],
        architecture: "deepseek32",
        keys: &[SHAPE, EXPERT_COUNTS, KEYS, INDEXER_KEYS],
        tensors: &[LATENT, INDEXER, EXPERTS, LLAMA],
        ..BASE
    },
    Family {
        models: &["GlmMoeDsaForCausalLM"],
        architecture: "glm-dsa",
        keys: &[SHAPE, EXPERT_COUNTS, KEYS, INDEXER_KEYS],
        more: |config, keys| {
            more(config, keys)?;
            let share = config.rope_float("partial_rotary_factor")?.unwrap_or(1.0);
            let rotated = f64::from(config.require_size(&["qk_rope_head_dim"])?) * share;
            keys.size("rope.dimension_count", rotated as u32);
            if let Some(types) = config.list("indexer_types")? {
                keys.flags("attention.indexer.types", types.iter().map(|kind| kind == "full").collect());
            }
            Ok(())
        },
        tensors: &[LATENT, INDEXER, EXPERTS, LLAMA],
        vocabulary: experts::GLM_VOCABULARY,
        ..BASE
    },
    Family {
        models: &["Mistral3ForConditionalGeneration"],
        when: |config| Ok(config.text(&["model_type"])? == Some("mistral4")),
        architecture: "mistral4",
        more: |config, keys| {
            more(config, keys)?;
            if let Some(scale) = config.rope_float("llama_4_scaling_beta")? {
                keys.float("attention.temperature_scale", scale);
                if let Some(length) = config.rope_size("original_max_position_embeddings")? {
                    keys.size("attention.temperature_length", length);
                }
            }
            Ok(())
        },
        tensors: &[LATENT, JOINED, EXPERTS, LLAMA],
        ..BASE
    },
    Family {
        models: &["MiniCPM3ForCausalLM"],
        architecture: "minicpm3",
        keys: &[SHAPE, MINICPM_KEYS],
        more: minicpm,
        tensors: &[WHOLE, LATENT, LLAMA],
        vectors: phi::factors,
        ..PLAIN
    },
];

/// What readers of its files take for granted is written only where it is otherwise.
fn minicpm(config: &Config, keys: &mut Keys) -> Result<()> {
    vocabulary_size(config, keys)?;
    let told = |key: &str| config.require_size(&[key]);
    keys.size("attention.key_length", told("qk_nope_head_dim")?.saturating_add(told("qk_rope_head_dim")?));
    let (width, heads) = (told("hidden_size")?, told("num_attention_heads")?.max(1));
    if let Some(values) = config.size(&["v_head_dim"])?.filter(|values| *values != width / heads) {
        keys.size("attention.value_length", values);
    }
    if let Some(base) = config.rope_float("rope_theta")?.filter(|base| *base != 10_000.0) {
        keys.float("rope.freq_base", base);
    }
    for (key, usual) in [("scale_emb", 12.0), ("scale_depth", 1.4), ("dim_model_base", 256.0)] {
        if let Some(factor) = config.float(&[key])?.filter(|factor| *factor != usual) {
            return Err(config.wrong(format!("key {key} is {factor}, and files of MiniCPM 3 have {usual}")));
        }
    }
    Ok(())
}

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
