//! Command R and Cohere 2.

use super::{Family, PLAIN, common, vocabulary_size};
use crate::keys::{EXPERT_COUNTS, HEADS, Key, SHAPE, float, required, size};

const SCALE: &[Key] = &[required(float("logit_scale", &["logit_scale"]))];
const WINDOW: &[Key] = &[required(size("attention.sliding_window", &["sliding_window"]))];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["CohereForCausalLM"],
        architecture: "command-r",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, SCALE],
        more: |config, keys| {
            // The length that it was trained for stands elsewhere than the one that it was begun with.
            if let Some(length) = config.size(&["model_max_length"])? {
                keys.size("context_length", length);
            }
            common(config, keys)?;
            keys.text("rope.scaling.type", "none");
            Ok(())
        },
        ..PLAIN
    },
    Family {
        models: &["Cohere2ForCausalLM"],
        architecture: "cohere2",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, SCALE, WINDOW],
        more: |config, keys| {
            common(config, keys)?;
            vocabulary_size(config, keys)?;
            let share = config.float(&["rotary_pct"])?.unwrap_or(1.0);
            let head = config.require_size(&["hidden_size"])? / config.heads()?;
            keys.size("rope.dimension_count", (f64::from(head) * share) as u32);
            keys.text("rope.scaling.type", "none");
            Ok(())
        },
        ..PLAIN
    },
];
