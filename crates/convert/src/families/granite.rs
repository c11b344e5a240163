//! Granite 3: Llama with factors, and experts whose gates and ups are one matrix.

use super::{Family, llama};
use crate::keys::{EXPERT_COUNTS, Key, SHAPE, float, size};
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

const BASE: Family = Family { keys: &[SHAPE, EXPERT_COUNTS, FACTORS], ..llama::BASE };

pub const FAMILIES: &[Family] = &[
    Family { models: &["GraniteForCausalLM"], architecture: "granite", ..BASE },
    Family {
        models: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        architecture: "granitemoe",
        tensors: &[PAIRED, EXPERTS, LLAMA],
        ..BASE
    },
];
