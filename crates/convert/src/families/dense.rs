//! Families of a few lines each: StableLM, GLM 4, ERNIE 4.5, Hunyuan, Seed-OSS, EXAONE 4, Nemotron.

use super::{Family, PLAIN, Vocabulary, common, rotated_share, vocabulary_size, windows};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, flag, float, required, size};
use crate::names::How::PlusOne;
use crate::names::{FOUR_NORMS, LLAMA, Rule, changed, rule};

const STABLELM: &[Rule] = &[
    rule("model.layers.#.self_attn.q_layernorm.norms.*", "blk.#.attn_q_norm"),
    rule("model.layers.#.self_attn.k_layernorm.norms.*", "blk.#.attn_k_norm"),
];

const STABLELM_KEYS: &[Key] = &[
    required(size("block_count", &["num_hidden_layers"])),
    required(size("context_length", &["max_position_embeddings"])),
    required(size("embedding_length", &["hidden_size"])),
    required(size("feed_forward_length", &["intermediate_size"])),
    required(size("attention.head_count", &["num_attention_heads"])),
    required(size("attention.head_count_kv", &["num_key_value_heads"])),
    flag("use_parallel_residual", &["use_parallel_residual"]),
    required(float("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"])),
];

const GLM4: &[Rule] = &[
    rule("model.layers.#.post_self_attn_layernorm", "blk.#.post_attention_norm"),
    rule("model.layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"),
    rule("model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"),
];

pub(super) const HUNYUAN: &[Rule] = &[
    rule("model.layers.#.self_attn.query_layernorm", "blk.#.attn_q_norm"),
    rule("model.layers.#.self_attn.key_layernorm", "blk.#.attn_k_norm"),
];

const SEED_OSS: &[Rule] = &[rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm")];

const NEMOTRON: &[Rule] = &[
    changed("model.norm", "output_norm", PlusOne),
    changed("model.layers.#.input_layernorm", "blk.#.attn_norm", PlusOne),
    changed("model.layers.#.post_attention_layernorm", "blk.#.ffn_norm", PlusOne),
];

const NEMOTRON_KEYS: &[Key] = &[required(float(
    "attention.layer_norm_epsilon",
    &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"],
))];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
        architecture: "stablelm",
        defaults: |config| {
            config.set_default("use_parallel_residual", true);
            Ok(())
        },
        keys: &[STABLELM_KEYS],
        more: |config, keys| rotated_share(config, keys, 0.25),
        tensors: &[STABLELM, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["Glm4ForCausalLM"],
        architecture: "glm4",
        more: |config, keys| {
            common(config, keys)?;
            rotated_share(config, keys, 0.5)
        },
        tensors: &[GLM4, LLAMA],
        vocabulary: Vocabulary {
            roles: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("bos", "<|endoftext|>"),
            ],
            ..PLAIN.vocabulary
        },
        ..PLAIN
    },
    Family { models: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"], architecture: "ernie4_5", ..PLAIN },
    Family {
        models: &["HunYuanDenseV1ForCausalLM"],
        architecture: "hunyuan-dense",
        more: |config, keys| {
            common(config, keys)?;
            hunyuan_base(config, keys, 50.0)
        },
        tensors: &[HUNYUAN, LLAMA],
        vocabulary: Vocabulary { keys: &[("eos", "eod_token_id")], ..PLAIN.vocabulary },
        ..PLAIN
    },
    Family {
        models: &["SeedOssForCausalLM"],
        architecture: "seed_oss",
        tensors: &[SEED_OSS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["Exaone4ForCausalLM"],
        architecture: "exaone4",
        more: |config, keys| {
            common(config, keys)?;
            vocabulary_size(config, keys)?;
            windows(config, keys)
        },
        tensors: &[FOUR_NORMS, LLAMA],
        vectors: super::llama::llama3_factors,
        ..PLAIN
    },
    Family {
        models: &["NemotronForCausalLM"],
        architecture: "nemotron",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, NEMOTRON_KEYS],
        more: |config, keys| {
            common(config, keys)?;
            vocabulary_size(config, keys)?;
            rotated_share(config, keys, 0.5)?;
            match config.float(&["factor"])?.or(config.rope_float("factor")?) {
                None => keys.text("rope.scaling.type", "none"),
                Some(factor) => {
                    keys.text("rope.scaling.type", "linear");
                    keys.float("rope.scaling.factor", factor);
                }
            }
            Ok(())
        },
        tensors: &[NEMOTRON, LLAMA],
        vocabulary: Vocabulary { numbers: &[("pad", 0), ("unk", 1)], ..PLAIN.vocabulary },
        ..PLAIN
    },
];

/// A base for texts longer by `alpha`, and not one that follows the text's length.
pub(super) fn hunyuan_base(config: &Config, keys: &mut Keys, usual: f64) -> Result<()> {
    if config.rope_type()? == "dynamic" {
        let alpha = config.rope_float("alpha")?.unwrap_or(usual);
        let base = config.rope_float("rope_theta")?.unwrap_or(10_000.0);
        let size = f64::from(config.head_size()?);
        keys.float("rope.freq_base", base * alpha.powf(size / (size - 2.0)));
        keys.text("rope.scaling.type", "none");
        keys.float("rope.scaling.factor", 1.0);
        keys.size("rope.scaling.original_context_length", 256 * 1024);
        keys.size("context_length", 256 * 1024);
    }
    Ok(())
}
