//! GPT-OSS: experts in blocks of four bits, or in floats with columns before rows, gates and ups in turns.

use super::{Family, PLAIN};
use crate::keys::{EXPERT_COUNTS, HEADS, Key, SHAPE, required, size};
use crate::names::How::{AsIs, Blocks, Every, TransposedEvery};
use crate::names::{LLAMA, Rule, changed, rule};

const TENSORS: &[Rule] = &[
    rule("model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"),
    rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"),
    rule("model.layers.#.mlp.router", "blk.#.ffn_gate_inp"),
    changed("model.layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", Blocks(0, 2)),
    changed("model.layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", Blocks(1, 2)),
    changed("model.layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", Blocks(0, 1)),
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", TransposedEvery(0, 2)),
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", TransposedEvery(1, 2)),
    changed("model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", TransposedEvery(0, 1)),
    changed("model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", Every(0, 2)),
    changed("model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", Every(1, 2)),
    changed("model.layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias", AsIs),
];

const KEYS: &[Key] = &[
    required(size("attention.sliding_window", &["sliding_window"])),
    required(size("expert_feed_forward_length", &["intermediate_size"])),
];

pub const FAMILIES: &[Family] = &[Family {
    models: &["GptOssForCausalLM"],
    architecture: "gpt-oss",
    keys: &[SHAPE, EXPERT_COUNTS, HEADS, KEYS],
    tensors: &[TENSORS, LLAMA],
    quantised: &["mxfp4"],
    ..PLAIN
}];
