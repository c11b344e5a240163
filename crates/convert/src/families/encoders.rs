//! Encoders: BERT with DistilBERT, RoBERTa and XLM-RoBERTa, Nomic Embed, and ModernBERT.

use super::{Family, PLAIN, Vocabulary, common, vocabulary_size};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{HEADS, Key, Keys, SHAPE, required, size};
use crate::names::How::AfterPadding;
use crate::names::{Rule, changed, rule, skipped};

const BERT: &[Rule] = &[
    rule("embeddings.word_embeddings", "token_embd"),
    rule("embeddings.position_embeddings", "position_embd"),
    rule("embeddings.token_type_embeddings", "token_types"),
    rule("embeddings.LayerNorm", "token_embd_norm"),
    rule("encoder.layer.#.attention.self.query", "blk.#.attn_q"),
    rule("encoder.layer.#.attention.self.key", "blk.#.attn_k"),
    rule("encoder.layer.#.attention.self.value", "blk.#.attn_v"),
    rule("encoder.layer.#.attention.output.dense", "blk.#.attn_output"),
    rule("encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm"),
    rule("encoder.layer.#.intermediate.dense", "blk.#.ffn_up"),
    rule("encoder.layer.#.output.dense", "blk.#.ffn_down"),
    rule("encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm"),
    skipped("embeddings.position_ids"),
    skipped("pooler.dense"),
];

const DISTILBERT: &[Rule] = &[
    rule("transformer.layer.#.attention.q_lin", "blk.#.attn_q"),
    rule("transformer.layer.#.attention.k_lin", "blk.#.attn_k"),
    rule("transformer.layer.#.attention.v_lin", "blk.#.attn_v"),
    rule("transformer.layer.#.attention.out_lin", "blk.#.attn_output"),
    rule("transformer.layer.#.sa_layer_norm", "blk.#.attn_output_norm"),
    rule("transformer.layer.#.ffn.lin1", "blk.#.ffn_up"),
    rule("transformer.layer.#.ffn.lin2", "blk.#.ffn_down"),
    rule("transformer.layer.#.output_layer_norm", "blk.#.layer_output_norm"),
];

/// Positions are counted from behind the number of the token that fills texts up.
const ROBERTA: &[Rule] = &[changed("embeddings.position_embeddings", "position_embd", AfterPadding)];

const NOMIC: &[Rule] = &[
    rule("emb_ln", "token_embd_norm"),
    rule("encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv"),
    rule("encoder.layers.#.attn.out_proj", "blk.#.attn_output"),
    rule("encoder.layers.#.norm1", "blk.#.attn_output_norm"),
    rule("encoder.layers.#.mlp.fc11", "blk.#.ffn_up"),
    rule("encoder.layers.#.mlp.fc12", "blk.#.ffn_gate"),
    rule("encoder.layers.#.mlp.fc2", "blk.#.ffn_down"),
    rule("encoder.layers.#.norm2", "blk.#.layer_output_norm"),
];

const MODERN: &[Rule] = &[
    rule("embeddings.tok_embeddings", "token_embd"),
    rule("embeddings.norm", "token_embd_norm"),
    rule("final_norm", "output_norm"),
    rule("layers.#.attn_norm", "blk.#.attn_norm"),
    rule("layers.#.attn.Wqkv", "blk.#.attn_qkv"),
    rule("layers.#.attn.Wo", "blk.#.attn_output"),
    rule("layers.#.mlp_norm", "blk.#.ffn_norm"),
    rule("layers.#.mlp.Wi", "blk.#.ffn_up"),
    rule("layers.#.mlp.Wo", "blk.#.ffn_down"),
];

const MODERN_KEYS: &[Key] = &[
    required(size("attention.sliding_window", &["local_attention"])),
    size("attention.sliding_window_pattern", &["global_attn_every_n_layers"]),
];

const BASE: Family = Family { architecture: "bert", keys: &[SHAPE], more: bert, tensors: &[BERT], ..PLAIN };

pub const FAMILIES: &[Family] = &[
    Family { models: &["BertModel"], ..BASE },
    Family {
        models: &["DistilBertModel"],
        defaults: |config| {
            // No configuration says it.
            config.set_default("layer_norm_eps", 1e-12);
            Ok(())
        },
        tensors: &[DISTILBERT, BERT],
        ..BASE
    },
    Family {
        models: &["RobertaModel", "XLMRobertaModel"],
        more: |config, keys| {
            bert(config, keys)?;
            let positions = config.require_size(&["max_position_embeddings"])?;
            keys.size("context_length", positions.saturating_sub(config.padding()?));
            Ok(())
        },
        tensors: &[ROBERTA, BERT],
        ..BASE
    },
    Family {
        models: &["NomicBertModel"],
        architecture: "nomic-bert",
        keys: &[SHAPE, HEADS],
        more: nomic,
        tensors: &[NOMIC, BERT],
        ..BASE
    },
    Family {
        models: &["ModernBertModel"],
        architecture: "modern-bert",
        keys: &[SHAPE, MODERN_KEYS],
        more: |config, keys| {
            let every = config.size(&["global_attn_every_n_layers"])?.unwrap_or(3);
            if let Some(types) = config.list("layer_types")?
                && types
                    .iter()
                    .zip(0u32..)
                    .any(|(kind, layer)| (kind == "full_attention") != (layer.checked_rem(every) == Some(0)))
            {
                let what = format!("key layer_types: only every {every}th layer can see everything");
                return Err(config.wrong(what));
            }
            common(config, keys)?;
            vocabulary_size(config, keys)?;
            keys.text("rope.scaling.type", "none");
            if let Some(activation) = config.text(&["hidden_activation"])? {
                keys.text("hidden_activation", activation);
            }
            keys.flag("attention.causal", false);
            Ok(())
        },
        tensors: &[MODERN],
        vocabulary: Vocabulary {
            usually_adds: &[("bos", true), ("eos", true), ("sep", true)],
            ..PLAIN.vocabulary
        },
        ..BASE
    },
];

fn bert(config: &Config, keys: &mut Keys) -> Result<()> {
    must_be(config, &["hidden_act", "activation"], &["gelu"])?;
    must_be(config, &["position_embedding_type"], &["absolute"])?;
    encoder(config, keys)
}

fn nomic(config: &Config, keys: &mut Keys) -> Result<()> {
    if config.size(&["moe_every_n_layers"])?.is_some_and(|every| every > 0) {
        return Err(config.wrong("key moe_every_n_layers: experts cannot be read"));
    }
    must_be(config, &["activation_function", "hidden_act"], &["swiglu", "silu"])?;
    for key in ["prenorm", "rotary_emb_interleaved", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"] {
        if config.flag(key)? == Some(true) {
            return Err(config.wrong(format!("key {key} must be false")));
        }
    }
    if config.float(&["rotary_emb_fraction"])?.is_some_and(|share| share != 1.0) {
        return Err(config.wrong("key rotary_emb_fraction must be 1"));
    }
    common(config, keys)?;
    // It says how far it could be stretched, too.
    if config.size(&["max_position_embeddings"])?.is_none() {
        let positions = config.require_size(&["n_positions"])?;
        keys.size("context_length", positions.min(config.size(&["max_trained_positions"])?.unwrap_or(2048)));
    }
    encoder(config, keys)
}

/// Refuses other words than these.
fn must_be(config: &Config, keys: &[&str], known: &[&str]) -> Result<()> {
    match config.text(keys)? {
        Some(said) if !known.contains(&said) => {
            Err(config.wrong(format!("key {} must be {}", keys.join(" or "), known.join(" or "))))
        }
        _ => Ok(()),
    }
}

/// What is read both ways, and how many kinds of text a text may be made of.
fn encoder(config: &Config, keys: &mut Keys) -> Result<()> {
    keys.flag("attention.causal", false);
    let types = config.size(&["type_vocab_size"])?.unwrap_or(1);
    keys.set_plain("tokenizer.ggml.token_type_count", gleed_gguf::Value::U32(types));
    Ok(())
}
