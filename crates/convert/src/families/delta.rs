//! Qwen 3.5 and Qwen3-Next: the gated delta rule in three of four layers, norms around 1.

use super::{Family, PLAIN, common, rotated_share, sections};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, required, size};
use crate::names::How::{
    ConvolvedValues, LinearGate, LinearQueries, NegativeExp, PlusOne, Squeezed, ValueColumns, ValueDecays,
    ValueHeads, Values, ValuesAfterKeys,
};
use crate::names::{EXPERTS, LLAMA, Rule, changed, rule};

const NORMS: &[Rule] = &[
    changed("model.norm", "output_norm", PlusOne),
    changed("model.layers.#.input_layernorm", "blk.#.attn_norm", PlusOne),
    changed("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm", PlusOne),
    changed("model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm", PlusOne),
    changed("model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm", PlusOne),
    rule("model.layers.#.linear_attn.norm", "blk.#.ssm_norm"),
];

const SEPARATE: &[Rule] = &[
    changed("model.layers.#.linear_attn.in_proj_qkv", "blk.#.attn_qkv", ValuesAfterKeys),
    changed("model.layers.#.linear_attn.in_proj_z", "blk.#.attn_gate", Values),
    changed("model.layers.#.linear_attn.in_proj_a", "blk.#.ssm_alpha", ValueHeads),
    changed("model.layers.#.linear_attn.in_proj_b", "blk.#.ssm_beta", ValueHeads),
    changed("model.layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", ConvolvedValues),
    changed("model.layers.#.linear_attn.A_log", "blk.#.ssm_a", ValueDecays),
    changed("model.layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", ValueHeads),
    changed("model.layers.#.linear_attn.out_proj", "blk.#.ssm_out", ValueColumns),
];

const TOGETHER: &[Rule] = &[
    changed("model.layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_qkv", LinearQueries),
    changed("model.layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_gate", LinearGate),
    rule("model.layers.#.linear_attn.in_proj_ba", "blk.#.ssm_ba"),
    changed("model.layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", Squeezed),
    changed("model.layers.#.linear_attn.A_log", "blk.#.ssm_a", NegativeExp),
    rule("model.layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias"),
    rule("model.layers.#.linear_attn.out_proj", "blk.#.ssm_out"),
];

const KEYS: &[Key] = &[
    required(size("ssm.conv_kernel", &["linear_conv_kernel_dim"])),
    required(size("ssm.state_size", &["linear_key_head_dim"])),
    required(size("ssm.group_count", &["linear_num_key_heads"])),
    required(size("ssm.time_step_rank", &["linear_num_value_heads"])),
    size("expert_feed_forward_length", &["moe_intermediate_size"]),
    size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
];

const BASE: Family = Family { keys: &[SHAPE, EXPERT_COUNTS, HEADS, KEYS], more, ..PLAIN };

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
        architecture: "qwen35",
        more: with_sections,
        tensors: &[NORMS, SEPARATE, LLAMA],
        ..BASE
    },
    Family {
        models: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
        architecture: "qwen35moe",
        more: with_sections,
        tensors: &[NORMS, SEPARATE, EXPERTS, LLAMA],
        ..BASE
    },
    Family {
        models: &["Qwen3NextForCausalLM"],
        architecture: "qwen3next",
        tensors: &[NORMS, TOGETHER, EXPERTS, LLAMA],
        ..BASE
    },
];

fn more(config: &Config, keys: &mut Keys) -> Result<()> {
    common(config, keys)?;
    let (size, heads) = ("linear_value_head_dim", "linear_num_value_heads");
    let inner = config.require_size(&[size])?.saturating_mul(config.require_size(&[heads])?);
    keys.size("ssm.inner_size", inner);
    let every = config.size(&["full_attention_interval"])?.unwrap_or(4);
    if let Some(types) = config.list("layer_types")?
        && types
            .iter()
            .zip(1u32..)
            .any(|(kind, layer)| (kind == "full_attention") != (layer.checked_rem(every) == Some(0)))
    {
        return Err(config.wrong(format!("key layer_types: only every {every}th layer can have attention")));
    }
    keys.size("full_attention_interval", every);
    rotated_share(config, keys, 0.25)
}

fn with_sections(config: &Config, keys: &mut Keys) -> Result<()> {
    more(config, keys)?;
    sections(config, keys, &[11, 11, 10, 0]);
    Ok(())
}
