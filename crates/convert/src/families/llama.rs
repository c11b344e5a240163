//! Llama and those that differ from it in a line: rotary pairs side by side, factors of llama3 as a tensor.

use super::{Family, PLAIN, Vectors, Vocabulary, common, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, required, size};
use crate::names::How::TransposedPart;
use crate::names::{BLOCKS, LLAMA, PAIRED, Rule, changed, rule};

const APERTUS: &[Rule] = &[
    rule("model.layers.#.attention_layernorm", "blk.#.attn_norm"),
    rule("model.layers.#.feedforward_layernorm", "blk.#.ffn_norm"),
];

/// Experts with columns before rows, gates before ups, beside one that every row uses.
const FOURTH: &[Rule] = &[
    rule("model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"),
    rule("model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
    rule("model.layers.#.feed_forward.down_proj", "blk.#.ffn_down"),
    rule("model.layers.#.feed_forward.router", "blk.#.ffn_gate_inp"),
    changed(
        "model.layers.#.feed_forward.experts.gate_up_proj",
        "blk.#.ffn_gate_exps.weight",
        TransposedPart(0, 2),
    ),
    changed(
        "model.layers.#.feed_forward.experts.gate_up_proj",
        "blk.#.ffn_up_exps.weight",
        TransposedPart(1, 2),
    ),
    changed(
        "model.layers.#.feed_forward.experts.down_proj",
        "blk.#.ffn_down_exps.weight",
        TransposedPart(0, 1),
    ),
    rule("model.layers.#.feed_forward.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"),
    rule("model.layers.#.feed_forward.shared_expert.up_proj", "blk.#.ffn_up_shexp"),
    rule("model.layers.#.feed_forward.shared_expert.down_proj", "blk.#.ffn_down_shexp"),
];

const FOURTH_KEYS: &[Key] = &[
    required(size("feed_forward_length", &["intermediate_size_mlp"])),
    required(size("expert_feed_forward_length", &["intermediate_size"])),
    required(size("interleave_moe_layer_step", &["interleave_moe_layer_step"])),
];

pub(super) const BASE: Family = Family {
    defaults: heads,
    more,
    tensors: &[PAIRED, LLAMA],
    vectors: llama3_factors,
    vocabulary: Vocabulary { asks_prefix: true, ..PLAIN.vocabulary },
    ..PLAIN
};

pub const FAMILIES: &[Family] = &[
    Family {
        models: &[
            "LlamaForCausalLM",
            "LLaMAForCausalLM",
            "MistralForCausalLM",
            "MixtralForCausalLM",
            "LlamaModel",
        ],
        architecture: "llama",
        tensors: &[PAIRED, BLOCKS, LLAMA],
        defaults: |config| {
            heads(config)?;
            if config.model()? != "MixtralForCausalLM" {
                let size = config.head_size()?;
                config.set_default("head_dim", size);
            }
            Ok(())
        },
        ..BASE
    },
    Family {
        models: &["SmolLM3ForCausalLM"],
        architecture: "smollm3",
        more: |config, keys| {
            fourths_unrotated(config)?;
            more(config, keys)
        },
        ..BASE
    },
    Family {
        models: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
        architecture: "llama4",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, FOURTH_KEYS],
        more: |config, keys| {
            fourths_unrotated(config)?;
            more(config, keys)
        },
        tensors: &[FOURTH, LLAMA],
        ..BASE
    },
    Family {
        models: &["Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"],
        when: |config| Ok(config.text(&["model_type"])? != Some("mistral4")),
        architecture: "mistral3",
        defaults: |config| {
            heads(config)?;
            let size = config.head_size()?;
            config.set_default("head_dim", size);
            Ok(())
        },
        more: |config, keys| {
            more(config, keys)?;
            if let Some(factor) = config.rope_float("mscale_all_dim")? {
                keys.float("rope.scaling.yarn_log_multiplier", factor);
            }
            if let Some(scale) = config.rope_float("llama_4_scaling_beta")? {
                keys.float("attention.temperature_scale", scale);
            }
            Ok(())
        },
        ..BASE
    },
    Family { models: &["ArceeForCausalLM"], architecture: "arcee", ..BASE },
    Family {
        models: &["ApertusForCausalLM"],
        architecture: "apertus",
        tensors: &[APERTUS, LLAMA],
        lists: &[
            ("model.layers.#.mlp.act_fn.alpha_n", "xielu.alpha_n"),
            ("model.layers.#.mlp.act_fn.alpha_p", "xielu.alpha_p"),
            ("model.layers.#.mlp.act_fn.beta", "xielu.beta"),
            ("model.layers.#.mlp.act_fn.eps", "xielu.eps"),
        ],
        ..BASE
    },
];

/// Refuses other layers without rotation than every fourth.
fn fourths_unrotated(config: &Config) -> Result<()> {
    if let Some(rotated) = config.list("no_rope_layers")?
        && rotated.iter().enumerate().any(|(layer, flag)| (flag == 1) != (layer % 4 != 3))
    {
        return Err(config.wrong("key no_rope_layers: only every fourth layer can be without rotation"));
    }
    Ok(())
}

/// Where the configuration does not say it, every query head has its own keys, and the base of angles is 10,000.
fn heads(config: &mut Config) -> Result<()> {
    let heads = config.heads()?;
    config.set_default("num_key_value_heads", heads);
    config.set_rope_default("rope_theta", 10_000.0);
    Ok(())
}

pub(super) fn more(config: &Config, keys: &mut Keys) -> Result<()> {
    common(config, keys)?;
    vocabulary_size(config, keys)?;
    keys.size("rope.dimension_count", config.head_size()?);
    Ok(())
}

/// How much slower each pair turns than without scaling.
pub(super) fn llama3_factors(config: &Config) -> Result<Vectors> {
    if config.rope_type()? != "llama3" {
        return Ok(Vec::new());
    }
    let parameter =
        |key: &str, default: f64| Ok::<f64, crate::Error>(config.rope_float(key)?.unwrap_or(default));
    let base = parameter("rope_theta", 10_000.0)? as f32;
    let factor = parameter("factor", 8.0)?;
    let (low, high) = (parameter("low_freq_factor", 1.0)?, parameter("high_freq_factor", 4.0)?);
    let context = parameter("original_max_position_embeddings", 8192.0)?;
    let size = config.head_size()?;
    // In f32 as far as llama.cpp's converter computes in f32, so that the factors are its bits.
    let factor_of = |pair: u32| {
        let frequency = 1.0 / base.powf((2 * pair) as f32 / size as f32);
        let wavelength = (2.0 * std::f64::consts::PI) as f32 / frequency;
        if f64::from(wavelength) < context / high {
            1.0
        } else if f64::from(wavelength) > context / low {
            factor as f32
        } else {
            let smooth = (context as f32 / wavelength - low as f32) / (high - low) as f32;
            1.0 / ((1.0 - smooth) / factor as f32 + smooth)
        }
    };
    if size > 1 << 16 {
        return Err(config.wrong(format!("heads of {size} values are too large")));
    }
    Ok(vec![("rope_freqs.weight", (0..size / 2).map(factor_of).collect())])
}
