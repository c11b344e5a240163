//! Qwen 2 and 3, with and without experts.

use super::{Family, PLAIN, common};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, size};
use crate::names::{EXPERTS, LLAMA};

const EXPERT_SIZES: &[Key] = &[
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
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
];
