//! Families with states: LFM2, with and without experts, Mamba 1 and 2.

use super::{Family, PLAIN, common, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::{Column, ColumnNegativeExp, InGroups, NegativeExp, Squeezed};
use crate::names::{LLAMA, Rule, changed, rule};

const LFM2: &[Rule] = &[
    rule("model.embedding_norm", "token_embd_norm"),
    rule("model.layers.#.operator_norm", "blk.#.attn_norm"),
    rule("model.layers.#.ffn_norm", "blk.#.ffn_norm"),
    rule("model.layers.#.self_attn.out_proj", "blk.#.attn_output"),
    rule("model.layers.#.self_attn.q_layernorm", "blk.#.attn_q_norm"),
    rule("model.layers.#.self_attn.k_layernorm", "blk.#.attn_k_norm"),
    rule("model.layers.#.feed_forward.w1", "blk.#.ffn_gate"),
    rule("model.layers.#.feed_forward.w2", "blk.#.ffn_down"),
    rule("model.layers.#.feed_forward.w3", "blk.#.ffn_up"),
    changed("model.layers.#.conv.conv", "blk.#.shortconv.conv", Squeezed),
    rule("model.layers.#.conv.in_proj", "blk.#.shortconv.in_proj"),
    rule("model.layers.#.conv.out_proj", "blk.#.shortconv.out_proj"),
    rule("model.layers.#.feed_forward.gate", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.feed_forward.expert_bias", "blk.#.exp_probs_b.bias"),
    rule("model.layers.#.feed_forward.experts.*.w1", "blk.#.ffn_gate_exps"),
    rule("model.layers.#.feed_forward.experts.*.w2", "blk.#.ffn_down_exps"),
    rule("model.layers.#.feed_forward.experts.*.w3", "blk.#.ffn_up_exps"),
];

const LFM2_KEYS: &[Key] = &[required(size("shortconv.l_cache", &["conv_L_cache"]))];

const LFM2_EXPERTS: &[Key] = &[
    required(size("expert_feed_forward_length", &["moe_intermediate_size"])),
    required(size("leading_dense_block_count", &["num_dense_layers"])),
];

pub(super) const MAMBA_OF_MIXERS: &[Rule] = &[
    rule("backbone.embeddings", "token_embd"),
    rule("backbone.norm_f", "output_norm"),
    rule("lm_head", "output"),
    rule("backbone.layers.#.norm", "blk.#.attn_norm"),
    rule("backbone.layers.#.mixer.in_proj", "blk.#.ssm_in"),
    changed("backbone.layers.#.mixer.conv1d", "blk.#.ssm_conv1d", Squeezed),
    rule("backbone.layers.#.mixer.x_proj", "blk.#.ssm_x"),
    rule("backbone.layers.#.mixer.dt_proj", "blk.#.ssm_dt"),
    changed("backbone.layers.#.mixer.A_log", "blk.#.ssm_a", NegativeExp),
    rule("backbone.layers.#.mixer.D", "blk.#.ssm_d"),
    rule("backbone.layers.#.mixer.out_proj", "blk.#.ssm_out"),
];

/// Scans of heads, whose decays and factors are one number each.
pub(super) const MAMBA2_OF_MIXERS: &[Rule] = &[
    changed("backbone.layers.#.mixer.A_log", "blk.#.ssm_a", ColumnNegativeExp),
    changed("backbone.layers.#.mixer.D", "blk.#.ssm_d", Column),
    rule("backbone.layers.#.mixer.dt_bias", "blk.#.ssm_dt.bias"),
    changed("backbone.layers.#.mixer.norm", "blk.#.ssm_norm", InGroups),
];

/// The same among attention's.
pub(super) const MAMBA2_OF_LAYERS: &[Rule] = &[
    rule("model.layers.#.mamba.in_proj", "blk.#.ssm_in"),
    changed("model.layers.#.mamba.conv1d", "blk.#.ssm_conv1d", Squeezed),
    changed("model.layers.#.mamba.A_log", "blk.#.ssm_a", ColumnNegativeExp),
    changed("model.layers.#.mamba.D", "blk.#.ssm_d", Column),
    rule("model.layers.#.mamba.dt_bias", "blk.#.ssm_dt.bias"),
    changed("model.layers.#.mamba.norm", "blk.#.ssm_norm", InGroups),
    rule("model.layers.#.mamba.out_proj", "blk.#.ssm_out"),
];

/// The sizes of scans.
pub(super) const MAMBA2_KEYS: &[Key] = &[
    required(size("ssm.conv_kernel", &["conv_kernel", "d_conv", "mamba_d_conv"])),
    required(size("ssm.state_size", &["state_size", "d_state", "ssm_state_size", "mamba_d_state"])),
    required(size("ssm.group_count", &["n_groups", "mamba_n_groups"])),
];

const MAMBA2_SHAPE: &[Key] = &[
    required(size("block_count", &["num_hidden_layers", "n_layer", "n_layers"])),
    required(size("embedding_length", &["hidden_size", "d_model"])),
    required(float("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"])),
];

const MAMBA_KEYS: &[Key] = &[
    required(size("block_count", &["num_hidden_layers", "n_layer", "n_layers"])),
    required(size("embedding_length", &["hidden_size", "d_model"])),
    required(size("ssm.conv_kernel", &["conv_kernel", "d_conv"])),
    required(size("ssm.inner_size", &["intermediate_size", "d_inner"])),
    required(size("ssm.state_size", &["state_size", "d_state"])),
    required(size("ssm.time_step_rank", &["time_step_rank", "dt_rank"])),
    required(float("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"])),
];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
        architecture: "lfm2",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, LFM2_KEYS],
        more: |config, keys| {
            shared(config, keys)?;
            keys.size("feed_forward_length", feed_forward(config)?);
            Ok(())
        },
        tensors: &[LFM2, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["Lfm2MoeForCausalLM"],
        architecture: "lfm2moe",
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, LFM2_KEYS, LFM2_EXPERTS],
        more: |config, keys| {
            shared(config, keys)?;
            keys.size("expert_gating_func", 2);
            Ok(())
        },
        tensors: &[LFM2, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["MambaForCausalLM", "FalconMambaForCausalLM"],
        architecture: "mamba",
        defaults: |config| {
            let width = config.require_size(&["hidden_size", "d_model"])?;
            config.set_default("conv_kernel", 4);
            config.set_default("intermediate_size", width.saturating_mul(2));
            config.set_default("state_size", 16);
            config.set_default("time_step_rank", width.div_ceil(16));
            config.set_default("layer_norm_epsilon", 1e-5);
            Ok(())
        },
        keys: &[MAMBA_KEYS],
        more: |config, keys| {
            no_attention(keys);
            keys.flag("ssm.dt_b_c_rms", config.model()? == "FalconMambaForCausalLM");
            Ok(())
        },
        tensors: &[MAMBA_OF_MIXERS],
        ..PLAIN
    },
    Family {
        models: &["Mamba2ForCausalLM"],
        architecture: "mamba2",
        defaults: |config| {
            config.set_default("conv_kernel", 4);
            config.set_default("state_size", 128);
            config.set_default("head_dim", 64);
            config.set_default("n_groups", 1);
            config.set_default("layer_norm_epsilon", 1e-5);
            Ok(())
        },
        keys: &[MAMBA2_SHAPE, MAMBA2_KEYS],
        more: |config, keys| {
            no_attention(keys);
            let width = config.require_size(&["hidden_size", "d_model"])?;
            let inner = match config.size(&["intermediate_size", "d_inner"])? {
                Some(inner) => inner,
                None => width.saturating_mul(config.size(&["expand"])?.unwrap_or(2)),
            };
            keys.size("ssm.inner_size", inner);
            keys.size("ssm.time_step_rank", inner / config.require_size(&["head_dim"])?.max(1));
            Ok(())
        },
        tensors: &[MAMBA2_OF_MIXERS, MAMBA_OF_MIXERS],
        ..PLAIN
    },
];

/// There is no end to it; and no attention, whose keys readers want all the same.
fn no_attention(keys: &mut Keys) {
    keys.size("context_length", 1 << 20);
    keys.size("feed_forward_length", 0);
    keys.size("attention.head_count", 0);
}

/// Layers of convolutions have no heads of keys and values.
fn shared(config: &Config, keys: &mut Keys) -> Result<()> {
    common(config, keys)?;
    vocabulary_size(config, keys)?;
    let heads = config.kv_heads()?;
    keys.list("attention.head_count_kv", by_kind(config, "layer_types", &["full_attention"], heads)?);
    Ok(())
}

/// A size for each layer: this one for layers of these kinds, 0 for others.
pub(super) fn by_kind(config: &Config, key: &str, kinds: &[&str], size: u32) -> Result<Vec<i32>> {
    let types = config.list(key)?.ok_or_else(|| config.missing(&[key]))?;
    let of = |kind: &serde_json::Value| match kind.as_str() {
        Some(kind) if kinds.contains(&kind) => size as i32,
        _ => 0,
    };
    Ok(types.iter().map(of).collect())
}

/// The width of the feed-forward, which the configuration may give before it is rounded.
fn feed_forward(config: &Config) -> Result<u32> {
    let mut width = config.require_size(&["block_ff_dim", "intermediate_size"])?;
    if config.flag("block_auto_adjust_ff_dim")? == Some(true) {
        let of = config.size(&["block_multiple_of"])?.unwrap_or(256).max(1);
        let factor = config.float(&["block_ffn_dim_multiplier"])?.unwrap_or(1.0);
        let wanted = f64::from((u64::from(width) * 2 / 3) as u32);
        width = ((factor * wanted) as u32).div_ceil(of).saturating_mul(of);
    }
    Ok(width)
}
