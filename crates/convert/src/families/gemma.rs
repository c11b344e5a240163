//! Gemma 1 to 3 and EmbeddingGemma: norms around 1, SentencePiece without a space in front.

use super::{Family, PLAIN, Vocabulary, common};
use crate::config::Config;
use crate::error::Result;
use crate::keys::{Key, Keys, SHAPE, float, required, size};
use crate::names::How::PlusOne;
use crate::names::{LLAMA, Rule, changed, rule, skipped};

/// The embedding is the output too, also where a checkpoint has a copy of it.
const NORMS: &[Rule] = &[
    changed("model.norm", "output_norm", PlusOne),
    changed("model.layers.#.input_layernorm", "blk.#.attn_norm", PlusOne),
    changed("model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm", PlusOne),
    changed("model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm", PlusOne),
    skipped("lm_head"),
];

const FIRST: &[Rule] = &[changed("model.layers.#.post_attention_layernorm", "blk.#.ffn_norm", PlusOne)];

const SECOND: &[Rule] = &[
    changed("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm", PlusOne),
    changed("model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm", PlusOne),
    changed("model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm", PlusOne),
];

pub(super) const HEADS: &[Key] = &[
    required(size("attention.key_length", &["head_dim"])),
    required(size("attention.value_length", &["head_dim"])),
];

/// Linear layers of an embedding.
const DENSE: &[Rule] = &[rule("2_Dense.linear", "dense_2"), rule("3_Dense.linear", "dense_3")];

const CAPS_AND_WINDOW: &[Key] = &[
    float("attn_logit_softcapping", &["attn_logit_softcapping"]),
    float("final_logit_softcapping", &["final_logit_softcapping"]),
    size("attention.sliding_window", &["sliding_window"]),
];

pub(super) const BASE: Family = Family {
    vocabulary: Vocabulary { space_prefix: Some(false), ..PLAIN.vocabulary },
    more: |_, _| Ok(()),
    ..PLAIN
};

pub const FAMILIES: &[Family] = &[
    Family {
        models: &["GemmaForCausalLM"],
        architecture: "gemma",
        keys: &[SHAPE, HEADS],
        tensors: &[NORMS, FIRST, LLAMA],
        vocabulary: Vocabulary { numbers: &[("eot", 107)], ..BASE.vocabulary },
        ..BASE
    },
    Family {
        models: &["Gemma2ForCausalLM"],
        architecture: "gemma2",
        keys: &[SHAPE, HEADS, CAPS_AND_WINDOW],
        tensors: &[NORMS, SECOND, LLAMA],
        ..BASE
    },
    Family {
        models: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        architecture: "gemma3",
        defaults: |config| {
            // What the configurations of the larger models leave out.
            config.set_default("max_position_embeddings", 131_072);
            config.set_default("num_attention_heads", 8);
            config.set_default("num_key_value_heads", 4);
            config.set_default("head_dim", 256);
            config.set_default("rms_norm_eps", 1e-6);
            config.set_default("vocab_size", 262_208);
            config.set_rope_default("rope_theta", 1_000_000.0);
            Ok(())
        },
        keys: &[SHAPE, HEADS, CAPS_AND_WINDOW],
        more: third,
        tensors: &[NORMS, SECOND, LLAMA],
        ..BASE
    },
    Family {
        models: &["Gemma3TextModel"],
        architecture: "gemma-embedding",
        keys: &[SHAPE, HEADS, CAPS_AND_WINDOW],
        more: |config, keys| {
            if config.flag("use_bidirectional_attention")? != Some(true) {
                let what = "key use_bidirectional_attention: must be true, a text is read both ways";
                return Err(config.wrong(what));
            }
            third(config, keys)
        },
        tensors: &[DENSE, NORMS, SECOND, LLAMA],
        ..BASE
    },
];

fn third(config: &Config, keys: &mut Keys) -> Result<()> {
    if let Some(types) = config.list("layer_types")?
        && types.iter().enumerate().any(|(layer, kind)| (kind == "full_attention") != (layer % 6 == 5))
    {
        return Err(config.wrong("key layer_types: only every sixth layer can see everything"));
    }
    common(config, keys)
}
