//! Granite 3 and 4: Llama with factors, and experts whose gates and ups are one matrix; Granite 4 has Mamba 2 in the place
//! of attention in most layers, or in none.

use super::recurrent::{MAMBA2_KEYS, MAMBA2_OF_LAYERS, by_kind};
use super::{Family, llama};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::Part;
use crate::names::{LLAMA, PAIRED, Rule, changed, rule};

const FACTORS: &[Key] = &[
    float("attention.scale", &["attention_multiplier"]),
    float("embedding_scale", &["embedding_multiplier"]),
    float("residual_scale", &["residual_multiplier"]),
    float("logit_scale", &["logits_scaling"]),
    size("expert_shared_feed_forward_length", &["shared_intermediate_size"]),
];

const EXPERTS: &[Rule] = &[
    rule("model.layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp"),
    changed("model.layers.#.block_sparse_moe.input_linear", "blk.#.ffn_gate_exps", Part(0, 2)),
    changed("model.layers.#.block_sparse_moe.input_linear", "blk.#.ffn_up_exps", Part(1, 2)),
    rule("model.layers.#.block_sparse_moe.output_linear", "blk.#.ffn_down_exps"),
    changed("model.layers.#.shared_mlp.input_linear", "blk.#.ffn_gate_shexp", Part(0, 2)),
    changed("model.layers.#.shared_mlp.input_linear", "blk.#.ffn_up_shexp", Part(1, 2)),
    rule("model.layers.#.shared_mlp.output_linear", "blk.#.ffn_down_shexp"),
];

/// What every row uses is the feed-forward itself where there are no experts beside it.
const DENSE: &[Rule] = &[
    changed("model.layers.#.shared_mlp.input_linear", "blk.#.ffn_gate", Part(0, 2)),
    changed("model.layers.#.shared_mlp.input_linear", "blk.#.ffn_up", Part(1, 2)),
    rule("model.layers.#.shared_mlp.output_linear", "blk.#.ffn_down"),
];

const HYBRID_KEYS: &[Key] = &[required(size("ssm.time_step_rank", &["mamba_n_heads"]))];

const BASE: Family = Family { keys: &[SHAPE, EXPERT_COUNTS, FACTORS], ..llama::BASE };

/// Granite 4.
const HYBRID: Family = Family {
    models: &["GraniteMoeHybridForCausalLM"],
    architecture: "granitehybrid",
    keys: &[SHAPE, EXPERT_COUNTS, FACTORS, MAMBA2_KEYS, HYBRID_KEYS],
    more: hybrid,
    ..BASE
};

pub const FAMILIES: &[Family] = &[
    Family { models: &["GraniteForCausalLM"], architecture: "granite", ..BASE },
    Family {
        models: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        architecture: "granitemoe",
        tensors: &[PAIRED, EXPERTS, LLAMA],
        ..BASE
    },
    Family {
        when: |config| Ok(has_scans(config)? && has_experts(config)?),
        tensors: &[PAIRED, EXPERTS, MAMBA2_OF_LAYERS, LLAMA],
        ..HYBRID
    },
    Family {
        when: |config| Ok(has_scans(config)? && !has_experts(config)?),
        tensors: &[PAIRED, DENSE, MAMBA2_OF_LAYERS, LLAMA],
        ..HYBRID
    },
    Family {
        when: |config| Ok(!has_scans(config)? && has_experts(config)?),
        architecture: "granitemoe",
        tensors: &[PAIRED, EXPERTS, LLAMA],
        ..HYBRID
    },
    Family {
        when: |config| Ok(!has_scans(config)? && !has_experts(config)?),
        architecture: "granite",
        tensors: &[PAIRED, DENSE, LLAMA],
        ..HYBRID
    },
];

fn has_scans(config: &Config) -> Result<bool> {
    let types = config.list("layer_types")?.ok_or_else(|| config.missing(&["layer_types"]))?;
    Ok(types.iter().any(|kind| kind == "mamba" || kind == "linear_attention"))
}

fn has_experts(config: &Config) -> Result<bool> {
    Ok(config.size(&["num_local_experts"])?.is_some_and(|count| count > 0))
}

fn hybrid(config: &Config, keys: &mut Keys) -> Result<()> {
    llama::more(config, keys)?;
    let (factor, width) = (config.require_size(&["mamba_expand"])?, config.require_size(&["hidden_size"])?);
    keys.size("ssm.inner_size", factor.saturating_mul(width));
    let heads = config.kv_heads()?;
    keys.list(
        "attention.head_count_kv",
        by_kind(config, "layer_types", &["attention", "full_attention"], heads)?,
    );
    // Beside scans, attention knows no positions, and without scans it does.
    let (scans, rotates) = (has_scans(config)?, config.text(&["position_embedding_type"])? == Some("rope"));
    if scans == rotates {
        let what = if scans { "must not be rope in" } else { "must be rope in a model without" };
        return Err(config.wrong(format!("key position_embedding_type {what} layers of Mamba")));
    }
    keys.flag("rope.scaling.finetuned", !scans);
    if scans {
        keys.size("context_length", 1 << 20);
    }
    Ok(())
}
