//! OLMo 2 and 3, OLMoE.

use super::{Family, PLAIN, common, windows};
use crate::names::{EXPERTS, FOUR_NORMS, LLAMA};

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
        architecture: "olmo2",
        more: |config, keys| {
            common(config, keys)?;
            windows(config, keys)
        },
        tensors: &[FOUR_NORMS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["OlmoeForCausalLM"],
        architecture: "olmoe",
        more: |config, keys| {
            common(config, keys)?;
            // Whatever the configuration says.
            keys.float("attention.layer_norm_rms_epsilon", 1e-5);
            Ok(())
        },
        tensors: &[EXPERTS, LLAMA],
        ..PLAIN
    },
];
