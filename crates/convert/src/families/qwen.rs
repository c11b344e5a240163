//! Qwen 2 and 3, with and without experts and eyes, of which the text part is taken.

use super::{Family, PLAIN, common, sections};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, size};
use crate::names::How::{Down, GateUp};
use crate::names::{EXPERTS, LLAMA, Rule, changed};

const EXPERT_SIZES: &[Key] = &[
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
];

/// Experts with columns before rows, or as newer versions of transformers write them.
const EITHER_WAY: &[Rule] = &[
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", GateUp(0)),
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", GateUp(1)),
    changed("model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", Down),
];

const WITH_EXPERTS: Family =
    Family { keys: &[SHAPE, EXPERT_COUNTS, HEADS, EXPERT_SIZES], tensors: &[EXPERTS, LLAMA], ..PLAIN };

/// The weights of experts are divided by their sum, or not: the architecture says which, and no key of the model.
fn divided(config: &Config, keys: &mut Keys, divided: bool) -> Result<()> {
    if config.flag("norm_topk_prob")?.is_some_and(|told| told != divided) {
        return Err(config.wrong(format!("key norm_topk_prob: must be {divided} in this kind of model")));
    }
    common(config, keys)
}

pub const FAMILIES: &[Family] = &[
    Family { models: &["Qwen2ForCausalLM", "Qwen2Model"], architecture: "qwen2", ..PLAIN },
    Family {
        models: &["Qwen2MoeForCausalLM"],
        architecture: "qwen2moe",
        more: |config, keys| divided(config, keys, false),
        ..WITH_EXPERTS
    },
    Family { models: &["Qwen3ForCausalLM", "Qwen3Model"], architecture: "qwen3", ..PLAIN },
    Family {
        models: &["Qwen3MoeForCausalLM"],
        architecture: "qwen3moe",
        more: |config, keys| divided(config, keys, true),
        ..WITH_EXPERTS
    },
    Family {
        models: &["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
        architecture: "qwen2vl",
        more: |config, keys| {
            common(config, keys)?;
            sections(config, keys, &[16, 24, 24, 0]);
            Ok(())
        },
        ..PLAIN
    },
    Family {
        models: &["Qwen3VLForConditionalGeneration"],
        architecture: "qwen3vl",
        more: |config, keys| {
            common(config, keys)?;
            third_with_eyes(config, keys);
            Ok(())
        },
        ..PLAIN
    },
    Family {
        models: &["Qwen3VLMoeForConditionalGeneration"],
        architecture: "qwen3vlmoe",
        more: |config, keys| {
            divided(config, keys, true)?;
            third_with_eyes(config, keys);
            Ok(())
        },
        tensors: &[EITHER_WAY, EXPERTS, LLAMA],
        ..WITH_EXPERTS
    },
];

/// Sections of pairs, and how many layers take what eyes saw.
fn third_with_eyes(config: &Config, keys: &mut Keys) {
    sections(config, keys, &[24, 20, 20, 0]);
    let eyes = config.value(&["vision_config"]).and_then(|eyes| eyes.get("deepstack_visual_indexes"));
    let layers = eyes.and_then(|layers| layers.as_array()).map_or(0, Vec::len);
    keys.size("n_deepstack_layers", layers as u32);
}
