//! Gemma 3n and 4: embeddings for each layer, keys and values that the last layers share. Layers that see everything have
//! larger heads in Gemma 4, and Gemma 3n keeps four residual streams.

use gleed_gguf::{Array, Value};
use serde_json::Value as Json;

use super::{Family, Vectors, common, gemma, windows};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, Key, Keys, SHAPE, float, required, size};
use crate::names::How::Padded;
use crate::names::{FOUR_NORMS, LLAMA, Rule, changed, rule};
use crate::vocabulary::USER_DEFINED;

const PER_LAYER: &[Rule] = &[
    changed("model.embed_tokens_per_layer", "per_layer_token_embd", Padded),
    rule("model.per_layer_model_projection", "per_layer_model_proj"),
    rule("model.per_layer_projection_norm", "per_layer_proj_norm"),
    rule("model.layers.#.per_layer_input_gate", "blk.#.inp_gate"),
    rule("model.layers.#.per_layer_projection", "blk.#.proj"),
    rule("model.layers.#.post_per_layer_input_norm", "blk.#.post_norm"),
];

const STREAMS: &[Rule] = &[
    rule("model.altup_projections.*", "altup_proj"),
    rule("model.altup_unembed_projections.*", "altup_unembd_proj"),
    rule("model.layers.#.altup.correct_output_scale", "blk.#.altup_correct_scale.weight"),
    rule("model.layers.#.altup.correction_coefs", "blk.#.altup_correct_coef"),
    rule("model.layers.#.altup.modality_router", "blk.#.altup_router"),
    rule("model.layers.#.altup.prediction_coefs", "blk.#.altup_predict_coef"),
    rule("model.layers.#.altup.router_norm", "blk.#.altup_router_norm"),
    rule("model.layers.#.laurel.linear_left", "blk.#.laurel_l"),
    rule("model.layers.#.laurel.linear_right", "blk.#.laurel_r"),
    rule("model.layers.#.laurel.post_laurel_norm", "blk.#.laurel_post_norm"),
];

/// Experts beside the feed-forward, gates and ups in one tensor.
const EXPERTS: &[Rule] = &[
    rule("model.layers.#.layer_scalar", "blk.#.layer_output_scale.weight"),
    rule("model.layers.#.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight"),
    rule("model.layers.#.experts.down_proj", "blk.#.ffn_down_exps.weight"),
    rule("model.layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale"),
    rule("model.layers.#.router.proj", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.router.scale", "blk.#.ffn_gate_inp.scale"),
    rule("model.layers.#.pre_feedforward_layernorm_2", "blk.#.pre_ffw_norm_2"),
    rule("model.layers.#.post_feedforward_layernorm_1", "blk.#.post_ffw_norm_1"),
    rule("model.layers.#.post_feedforward_layernorm_2", "blk.#.post_ffw_norm_2"),
];

const SHARED: &[Key] = &[
    float("final_logit_softcapping", &["final_logit_softcapping"]),
    required(size("embedding_length_per_layer_input", &["hidden_size_per_layer_input"])),
    required(size("attention.shared_kv_layers", &["num_kv_shared_layers"])),
];

const STREAM_KEYS: &[Key] = &[
    required(size("altup.active_idx", &["altup_active_idx"])),
    required(size("altup.num_inputs", &["altup_num_inputs"])),
];

const HEADS: &[Key] = &[
    required(size("attention.key_length_swa", &["head_dim"])),
    required(size("attention.value_length_swa", &["head_dim"])),
    required(size("rope.dimension_count_swa", &["head_dim"])),
    size("expert_feed_forward_length", &["expert_intermediate_size", "moe_intermediate_size"]),
];

/// Special tokens that a reader of answers must see.
const SHOWN: &[(&str, i32)] = &[
    ("<|channel>", USER_DEFINED),
    ("<channel|>", USER_DEFINED),
    ("<|tool_call>", USER_DEFINED),
    ("<tool_call|>", USER_DEFINED),
    ("<|tool_response>", USER_DEFINED),
    ("<tool_response|>", USER_DEFINED),
    ("<|\"|>", USER_DEFINED),
];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"],
        architecture: "gemma3n",
        keys: &[SHAPE, gemma::HEADS, SHARED, STREAM_KEYS],
        more: |config, keys| {
            // No key says it.
            if config.size(&["laurel_rank"])?.is_some_and(|rank| rank != 64) {
                return Err(config.wrong("key laurel_rank: must be 64"));
            }
            common(config, keys)?;
            windows(config, keys)?;
            sparsity(config, keys)
        },
        tensors: &[PER_LAYER, STREAMS, FOUR_NORMS, LLAMA],
        ..gemma::BASE
    },
    Family {
        models: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
        architecture: "gemma4",
        defaults: |config| {
            config.set_default("hidden_size_per_layer_input", 0);
            Ok(())
        },
        keys: &[SHAPE, EXPERT_COUNTS, SHARED, HEADS],
        more: fourth,
        tensors: &[PER_LAYER, EXPERTS, FOUR_NORMS, LLAMA],
        vectors: unrotated,
        vocabulary: super::Vocabulary {
            adds: &[("bos", true)],
            of_characters: true,
            kinds: SHOWN,
            ..gemma::BASE.vocabulary
        },
        ..gemma::BASE
    },
];

fn fourth(config: &Config, keys: &mut Keys) -> Result<()> {
    if config.text(&["use_bidirectional_attention"])? == Some("all") {
        return Err(config.wrong("key use_bidirectional_attention: no token can see later ones"));
    }
    common(config, keys)?;
    windows(config, keys)?;
    let head = whole_head(config)?;
    keys.size("attention.key_length", head);
    keys.size("attention.value_length", head);
    keys.size("rope.dimension_count", head);
    let layers = config.layers()?;
    if config.flag("use_double_wide_mlp")? == Some(true) {
        let width = i64::from(config.require_size(&["intermediate_size"])?);
        let own = layers.saturating_sub(config.require_size(&["num_kv_shared_layers"])?);
        let of_layer = |layer| i32::try_from(if layer < own { width } else { 2 * width });
        let widths = (0..layers).map(of_layer).collect::<std::result::Result<_, _>>();
        let widths = widths.map_err(|_| config.wrong(format!("a feed-forward of {width} is too wide")))?;
        keys.list("feed_forward_length", widths);
    }
    if let Some(heads) = of_whole(config, "num_global_key_value_heads", "num_key_value_heads")? {
        let near = config.kv_heads()?;
        let types = types(config)?.iter();
        let of_layer = |kind: &Json| if kind == "sliding_attention" { near as i32 } else { heads as i32 };
        keys.list("attention.head_count_kv", types.map(of_layer).collect());
    }
    Ok(())
}

fn types(config: &Config) -> Result<&[Json]> {
    config.list("layer_types")?.ok_or_else(|| config.missing(&["layer_types"]))
}

/// A size of layers that see everything: by a key of its own, or among what a configuration says of single layers.
fn of_whole(config: &Config, key: &str, in_layer: &str) -> Result<Option<u32>> {
    if let Some(size) = config.size(&[key])? {
        return Ok(Some(size));
    }
    let types = types(config)?;
    let single = config.value(&["per_layer_config"]).and_then(Json::as_object);
    let mut whole = single.into_iter().flatten().filter(|(layer, _)| {
        layer
            .parse::<usize>()
            .is_ok_and(|layer| types.get(layer).is_some_and(|kind| kind == "full_attention"))
    });
    let size = whole.find_map(|(_, said)| said.get(in_layer)?.as_u64());
    Ok(size.and_then(|size| u32::try_from(size).ok()))
}

/// How many values a head of layers that see everything has.
fn whole_head(config: &Config) -> Result<u32> {
    of_whole(config, "global_head_dim", "head_dim")?.ok_or_else(|| config.missing(&["global_head_dim"]))
}

/// Layers that see everything rotate a part of their pairs: the others are so slow that they do not turn.
fn unrotated(config: &Config) -> Result<Vectors> {
    if config.rope_type()? != "proportional" {
        return Err(config.wrong("key rope_type: layers that see everything must have proportional"));
    }
    let (head, share) = (whole_head(config)?, config.rope_float("partial_rotary_factor")?.unwrap_or(1.0));
    if head > 1 << 16 {
        return Err(config.wrong(format!("heads of {head} values are too large")));
    }
    let turning = (f64::from(head) * share / 2.0) as u32;
    let factors = (0..head / 2).map(|pair| if pair < turning { 1.0 } else { 1e30 }).collect();
    Ok(vec![("rope_freqs.weight", factors)])
}

/// How far above the mean of its row a gate must be to open, in standard deviations: so that the given share stays shut.
fn sparsity(config: &Config, keys: &mut Keys) -> Result<()> {
    let key = "activation_sparsity_pattern";
    let shares = config.list(key)?.ok_or_else(|| config.missing(&[key]))?;
    let spreads = shares.iter().map(|share| Some(quantile(share.as_f64()?) as f32)).collect::<Option<_>>();
    let spreads = spreads.ok_or_else(|| config.wrong(format!("key {key} must be a list of numbers")))?;
    keys.set("activation_sparsity_scale", Value::Array(Array::F32(spreads)));
    Ok(())
}

/// The value below which this share of the normal distribution lies.
fn quantile(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return if share <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    // Halving an interval that holds all but 1e-19 of it; what lies below x is a series that converges everywhere.
    let below = |x: f64| {
        let (mut term, mut sum) = (x, x);
        for odd in (3..400).step_by(2) {
            term *= x * x / f64::from(odd);
            sum += term;
        }
        0.5 + sum * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
    };
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn shares_become_the_numbers_of_torch() {
        // What torch.distributions.normal.Normal(0, 1).icdf gives for f32.
        let known = [(0.5, 0.0), (0.75, 0.674_489_74), (0.95, 1.644_853_6)];
        for (share, place) in known {
            assert!((quantile(share) as f32 - place).abs() <= f32::EPSILON / 2.0, "{share}");
            assert!((quantile(1.0 - share) as f32 + place).abs() <= f32::EPSILON / 2.0, "{share}");
        }
        assert_eq!([quantile(0.0), quantile(1.0)], [f64::NEG_INFINITY, f64::INFINITY]);
    }
}
