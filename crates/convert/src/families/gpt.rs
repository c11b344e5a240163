//! GPT-2, GPT-NeoX (Pythia), Falcon and StarCoder 2: names of their own, queries, keys and values in one matrix.

use gleed_gguf::Value;

use super::{Family, PLAIN};
use crate::keys::{Key, flag, float, required, size};
use crate::names::How::{Grouped, Transposed};
use crate::names::{LLAMA, Rule, changed, rule, skipped};

const STARCODER2: &[Rule] =
    &[rule("model.layers.#.mlp.c_fc", "blk.#.ffn_up"), rule("model.layers.#.mlp.c_proj", "blk.#.ffn_down")];

const GPT2: &[Rule] = &[
    rule("transformer.wte", "token_embd"),
    rule("transformer.wpe", "position_embd"),
    rule("transformer.ln_f", "output_norm"),
    rule("lm_head", "output"),
    rule("transformer.h.#.ln_1", "blk.#.attn_norm"),
    changed("transformer.h.#.attn.c_attn", "blk.#.attn_qkv", Transposed),
    changed("transformer.h.#.attn.c_proj", "blk.#.attn_output", Transposed),
    rule("transformer.h.#.ln_2", "blk.#.ffn_norm"),
    changed("transformer.h.#.mlp.c_fc", "blk.#.ffn_up", Transposed),
    changed("transformer.h.#.mlp.c_proj", "blk.#.ffn_down", Transposed),
    // A mask that old checkpoints have.
    skipped("transformer.h.#.attn"),
    skipped("transformer.h.#.attn.masked_bias"),
];

const NEOX: &[Rule] = &[
    rule("gpt_neox.embed_in", "token_embd"),
    rule("embed_out", "output"),
    rule("gpt_neox.final_layer_norm", "output_norm"),
    rule("gpt_neox.layers.#.input_layernorm", "blk.#.attn_norm"),
    changed("gpt_neox.layers.#.attention.query_key_value", "blk.#.attn_qkv", Grouped),
    rule("gpt_neox.layers.#.attention.dense", "blk.#.attn_output"),
    rule("gpt_neox.layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
    rule("gpt_neox.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"),
    rule("gpt_neox.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"),
    skipped("gpt_neox.layers.#.attention"),
    skipped("gpt_neox.layers.#.attention.masked_bias"),
    skipped("gpt_neox.layers.#.attention.rotary_emb.inv_freq"),
];

const FALCON: &[Rule] = &[
    rule("transformer.word_embeddings", "token_embd"),
    rule("transformer.ln_f", "output_norm"),
    rule("lm_head", "output"),
    rule("transformer.h.#.input_layernorm", "blk.#.attn_norm"),
    rule("transformer.h.#.ln_mlp", "blk.#.attn_norm"),
    rule("transformer.h.#.ln_attn", "blk.#.attn_norm_2"),
    changed("transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv", Grouped),
    rule("transformer.h.#.self_attention.dense", "blk.#.attn_output"),
    rule("transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"),
    rule("transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"),
];

const GPT2_KEYS: &[Key] = &[
    required(size("block_count", &["n_layer"])),
    required(size("context_length", &["n_ctx", "n_positions"])),
    required(size("embedding_length", &["n_embd"])),
    required(size("attention.head_count", &["n_head"])),
    required(float("attention.layer_norm_epsilon", &["layer_norm_epsilon"])),
];

const NEOX_KEYS: &[Key] = &[
    required(size("context_length", &["max_position_embeddings"])),
    required(size("embedding_length", &["hidden_size"])),
    required(size("block_count", &["num_hidden_layers"])),
    required(size("feed_forward_length", &["intermediate_size"])),
    required(size("attention.head_count", &["num_attention_heads"])),
    flag("use_parallel_residual", &["use_parallel_residual"]),
    required(float("attention.layer_norm_epsilon", &["layer_norm_eps"])),
];

const FALCON_KEYS: &[Key] = &[
    required(size("embedding_length", &["hidden_size"])),
    required(size("block_count", &["num_hidden_layers", "n_layer"])),
    required(size("attention.head_count", &["num_attention_heads", "n_head"])),
    size("attention.head_count_kv", &["num_kv_heads", "n_head_kv"]),
    required(float("attention.layer_norm_epsilon", &["layer_norm_epsilon"])),
];

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["Starcoder2ForCausalLM"],
        architecture: "starcoder2",
        tensors: &[STARCODER2, LLAMA],
        ..PLAIN
    },
    Family {
        models: &["GPT2LMHeadModel"],
        architecture: "gpt2",
        keys: &[GPT2_KEYS],
        more: |config, keys| {
            keys.size("feed_forward_length", config.require_size(&["n_embd"])?.saturating_mul(4));
            Ok(())
        },
        tensors: &[GPT2],
        ..PLAIN
    },
    Family {
        models: &["GPTNeoXForCausalLM"],
        architecture: "gptneox",
        defaults: |config| {
            config.set_default("use_parallel_residual", true);
            Ok(())
        },
        keys: &[NEOX_KEYS],
        more: |config, keys| {
            let share = config.float(&["rotary_pct"])?.or(config.rope_float("partial_rotary_factor")?);
            let head = config.require_size(&["hidden_size"])? / config.heads()?;
            keys.size("rope.dimension_count", (f64::from(head) * share.unwrap_or(0.25)) as u32);
            Ok(())
        },
        tensors: &[NEOX],
        ..PLAIN
    },
    Family {
        models: &["FalconForCausalLM", "RWForCausalLM"],
        architecture: "falcon",
        defaults: |config| {
            // Without the newer layers one head of keys serves all queries, whatever their number is said to be.
            let newer = config.flag("new_decoder_architecture")?.unwrap_or(false);
            if !newer && config.flag("multi_query")?.unwrap_or(true) {
                config.replace("num_kv_heads", 1);
            }
            Ok(())
        },
        keys: &[FALCON_KEYS],
        more: |config, keys| {
            keys.size("context_length", 2048);
            keys.set("tensor_data_layout", Value::Str("jploski".to_string()));
            keys.size("feed_forward_length", config.require_size(&["hidden_size"])?.saturating_mul(4));
            Ok(())
        },
        tensors: &[FALCON],
        ..PLAIN
    },
];
