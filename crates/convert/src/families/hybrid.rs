//! Nemotron-H, Falcon-H1 and Jamba: Mamba in the place of attention, or beside it.

use super::recurrent::{MAMBA_OF_MIXERS, MAMBA2_KEYS, MAMBA2_OF_LAYERS, MAMBA2_OF_MIXERS};
use super::{Family, PLAIN, Vocabulary, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE, flag, float, required, size};
use crate::names::How::{Keys as KeyRows, NegativeExp, Queries, ScanInputs, Squeezed, Times};
use crate::names::{LLAMA, Rule, changed, rule};

/// One mixer in each layer.
const MIXERS: &[Rule] = &[
    changed("backbone.layers.#.mixer.q_proj", "blk.#.attn_q", Queries),
    changed("backbone.layers.#.mixer.k_proj", "blk.#.attn_k", KeyRows),
    rule("backbone.layers.#.mixer.v_proj", "blk.#.attn_v"),
    rule("backbone.layers.#.mixer.o_proj", "blk.#.attn_output"),
    rule("backbone.layers.#.mixer.up_proj", "blk.#.ffn_up"),
    rule("backbone.layers.#.mixer.down_proj", "blk.#.ffn_down"),
    rule("backbone.layers.#.mixer.gate", "blk.#.ffn_gate_inp"),
    rule("backbone.layers.#.mixer.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"),
    rule("backbone.layers.#.mixer.experts.*.up_proj", "blk.#.ffn_up_exps"),
    rule("backbone.layers.#.mixer.experts.*.down_proj", "blk.#.ffn_down_exps"),
    rule("backbone.layers.#.mixer.shared_experts.up_proj", "blk.#.ffn_up_shexp"),
    rule("backbone.layers.#.mixer.shared_experts.down_proj", "blk.#.ffn_down_shexp"),
    rule("backbone.layers.#.mixer.fc1_latent_proj", "blk.#.ffn_latent_down"),
    rule("backbone.layers.#.mixer.fc2_latent_proj", "blk.#.ffn_latent_up"),
];

const NEMOTRON_KEYS: &[Key] = &[required(size("ssm.time_step_rank", &["mamba_num_heads"]))];

const NEMOTRON_EXPERTS: &[Key] = &[
    required(size("expert_feed_forward_length", &["moe_intermediate_size"])),
    required(size("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"])),
    required(size("expert_shared_count", &["n_shared_experts"])),
    required(flag("expert_weights_norm", &["norm_topk_prob"])),
    required(float("expert_weights_scale", &["routed_scaling_factor"])),
    size("moe_latent_size", &["moe_latent_size"]),
];

/// Factors of what layers read and give become part of their weights.
const FALCON: &[Rule] = &[
    changed("model.embed_tokens", "token_embd", Times(&["embedding_multiplier"])),
    changed("lm_head", "output", Times(&["lm_head_multiplier"])),
    rule("model.final_layernorm", "output_norm"),
    // The one norm without an ending.
    rule("model.layers.#.pre_ff_layernorm.weight", "blk.#.ffn_norm"),
    changed("model.layers.#.self_attn.q_proj", "blk.#.attn_q", Times(&["attention_in_multiplier"])),
    changed(
        "model.layers.#.self_attn.k_proj",
        "blk.#.attn_k",
        Times(&["key_multiplier", "attention_in_multiplier"]),
    ),
    changed("model.layers.#.self_attn.v_proj", "blk.#.attn_v", Times(&["attention_in_multiplier"])),
    changed("model.layers.#.self_attn.o_proj", "blk.#.attn_output", Times(&["attention_out_multiplier"])),
    changed("model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate", Times(&["mlp_multipliers.0"])),
    rule("model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
    changed("model.layers.#.feed_forward.down_proj", "blk.#.ffn_down", Times(&["mlp_multipliers.1"])),
    changed("model.layers.#.mamba.in_proj", "blk.#.ssm_in", ScanInputs),
    changed("model.layers.#.mamba.out_proj", "blk.#.ssm_out", Times(&["ssm_out_multiplier"])),
];

const FALCON_KEYS: &[Key] = &[
    required(size("ssm.inner_size", &["mamba_d_ssm"])),
    required(size("ssm.time_step_rank", &["mamba_n_heads"])),
];

const JAMBA: &[Rule] = &[
    rule("model.final_layernorm", "output_norm"),
    rule("model.layers.#.pre_ff_layernorm", "blk.#.ffn_norm"),
    rule("model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"),
    rule("model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
    rule("model.layers.#.feed_forward.down_proj", "blk.#.ffn_down"),
    rule("model.layers.#.feed_forward.router", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.feed_forward.experts.*.gate_proj", "blk.#.ffn_gate_exps"),
    rule("model.layers.#.feed_forward.experts.*.up_proj", "blk.#.ffn_up_exps"),
    rule("model.layers.#.feed_forward.experts.*.down_proj", "blk.#.ffn_down_exps"),
    rule("model.layers.#.mamba.in_proj", "blk.#.ssm_in"),
    changed("model.layers.#.mamba.conv1d", "blk.#.ssm_conv1d", Squeezed),
    rule("model.layers.#.mamba.x_proj", "blk.#.ssm_x"),
    rule("model.layers.#.mamba.dt_proj", "blk.#.ssm_dt"),
    rule("model.layers.#.mamba.dt_layernorm", "blk.#.ssm_dt_norm"),
    rule("model.layers.#.mamba.b_layernorm", "blk.#.ssm_b_norm"),
    rule("model.layers.#.mamba.c_layernorm", "blk.#.ssm_c_norm"),
    changed("model.layers.#.mamba.A_log", "blk.#.ssm_a", NegativeExp),
    rule("model.layers.#.mamba.D", "blk.#.ssm_d"),
    rule("model.layers.#.mamba.out_proj", "blk.#.ssm_out"),
];

const JAMBA_KEYS: &[Key] = &[
    required(size("ssm.conv_kernel", &["mamba_d_conv"])),
    required(size("ssm.state_size", &["mamba_d_state"])),
    required(size("ssm.time_step_rank", &["mamba_dt_rank"])),
];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["NemotronHForCausalLM"],
        when: |config| Ok(!mixers(config)?.contains(&Mixer::Experts)),
        architecture: "nemotron_h",
        defaults: nemotron_defaults,
        keys: &[SHAPE, HEADS, MAMBA2_KEYS, NEMOTRON_KEYS],
        more: |config, keys| {
            let width = config.require_size(&["intermediate_size"])?;
            nemotron(config, keys, Mixer::FeedForward, width)
        },
        tensors: &[MIXERS, MAMBA2_OF_MIXERS, MAMBA_OF_MIXERS],
        vocabulary: Vocabulary { adds: &[("bos", true)], ..PLAIN.vocabulary },
        ..PLAIN
    },
    Family {
        models: &["NemotronHForCausalLM"],
        when: |config| Ok(mixers(config)?.contains(&Mixer::Experts)),
        architecture: "nemotron_h_moe",
        defaults: nemotron_defaults,
        keys: &[SHAPE, EXPERT_COUNTS, HEADS, MAMBA2_KEYS, NEMOTRON_KEYS, NEMOTRON_EXPERTS],
        more: |config, keys| {
            if mixers(config)?.contains(&Mixer::FeedForward) {
                return Err(config.wrong("layers of experts and others of one feed-forward cannot be mixed"));
            }
            let width = config.require_size(&["moe_intermediate_size"])?;
            nemotron(config, keys, Mixer::Experts, width)
        },
        tensors: &[MIXERS, MAMBA2_OF_MIXERS, MAMBA_OF_MIXERS],
        ..PLAIN
    },
    Family {
        models: &["FalconH1ForCausalLM"],
        architecture: "falcon-h1",
        keys: &[SHAPE, HEADS, MAMBA2_KEYS, FALCON_KEYS],
        more: |config, keys| {
            let factor = |key: &str| Ok::<f64, crate::Error>(config.float(&[key])?.unwrap_or(1.0));
            if config.flag("tie_word_embeddings")? == Some(true)
                && factor("embedding_multiplier")? != factor("lm_head_multiplier")?
            {
                return Err(config.wrong("one matrix cannot be embedding and output with different factors"));
            }
            if config.flag("mamba_rms_norm")? == Some(true)
                && config.flag("mamba_norm_before_gate")? != Some(false)
            {
                return Err(config.wrong("key mamba_norm_before_gate: must be false, gates come first"));
            }
            keys.rope(config)?;
            vocabulary_size(config, keys)
        },
        tensors: &[FALCON, MAMBA2_OF_LAYERS, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["JambaForCausalLM"],
        architecture: "jamba",
        keys: &[SHAPE, EXPERT_COUNTS, JAMBA_KEYS],
        more: |config, keys| {
            let (factor, width) =
                (config.require_size(&["mamba_expand"])?, config.require_size(&["hidden_size"])?);
            keys.size("ssm.inner_size", factor.saturating_mul(width));
            let told = |key: &str| config.require_size(&[key]);
            let (period, offset) = (told("attn_layer_period")?, told("attn_layer_offset")?);
            let heads = config.kv_heads()? as i32;
            let of_layer = |layer: u32| match layer.checked_sub(offset).map(|after| after.checked_rem(period))
            {
                Some(Some(0)) => heads,
                _ => 0,
            };
            keys.list("attention.head_count_kv", (0..config.layers()?).map(of_layer).collect());
            Ok(())
        },
        tensors: &[JAMBA, LLAMA],
        ..PLAIN
    },
];

/// What a layer of Nemotron-H has.
#[derive(Clone, Copy, PartialEq)]
enum Mixer {
    Scan,
    Attention,
    FeedForward,
    Experts,
}

/// The mixers of all layers: as letters, or by name.
fn mixers(config: &Config) -> Result<Vec<Mixer>> {
    let named = |name: &str| match name {
        "M" | "mamba" | "linear_attention" => Ok(Mixer::Scan),
        "*" | "attention" | "full_attention" => Ok(Mixer::Attention),
        "-" | "mlp" => Ok(Mixer::FeedForward),
        "E" | "moe" => Ok(Mixer::Experts),
        _ => Err(config.wrong(format!("a layer of {} is not known", gleed_gguf::shown(name)))),
    };
    if let Some(letters) = config.text(&["hybrid_override_pattern"])? {
        return letters.chars().map(|letter| named(letter.encode_utf8(&mut [0; 4]))).collect();
    }
    let names = config.list("layers_block_type")?.ok_or_else(|| config.missing(&["layers_block_type"]))?;
    names.iter().map(|name| named(name.as_str().unwrap_or_default())).collect()
}

/// Newer configurations leave out what follows from others.
fn nemotron_defaults(config: &mut Config) -> Result<()> {
    config.set_default("num_hidden_layers", mixers(config)?.len());
    if let Some(epsilon) = config.float(&["layer_norm_epsilon"])? {
        config.set_default("rms_norm_eps", epsilon);
    }
    Ok(())
}

/// Which layers have attention, and which a feed-forward, and of what width.
fn nemotron(config: &Config, keys: &mut Keys, forward: Mixer, width: u32) -> Result<()> {
    vocabulary_size(config, keys)?;
    let mixers = mixers(config)?;
    if mixers.len() != config.layers()? as usize {
        return Err(config.wrong(format!("{} layers are described, not as many as there are", mixers.len())));
    }
    let by_kind =
        |kind, size: u32| mixers.iter().map(|mixer| if *mixer == kind { size as i32 } else { 0 }).collect();
    keys.list("attention.head_count_kv", by_kind(Mixer::Attention, config.kv_heads()?));
    keys.list("feed_forward_length", by_kind(forward, width));
    let (heads, head) =
        (config.require_size(&["mamba_num_heads"])?, config.require_size(&["mamba_head_dim"])?);
    keys.size("ssm.inner_size", heads.saturating_mul(head));
    // There is no end to it, and no rotation.
    keys.size("context_length", 1 << 20);
    keys.flag("rope.scaling.finetuned", false);
    keys.size("rope.dimension_count", config.require_size(&["hidden_size"])? / config.heads()?);
    Ok(())
}
