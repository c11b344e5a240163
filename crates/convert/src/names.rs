//! From names of tensors in checkpoints to those in GGUF files: patterns in which `#` is the number of a layer and `*`
//! that of an expert.

/// What becomes of a tensor on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// Nothing.
    AsIs,
    /// Rows of queries: rotary pairs side by side.
    Queries,
    /// Rows of keys: rotary pairs side by side.
    Keys,
    /// 1 is added to every value of a weight, and not to a bias.
    PlusOne,
    /// `(n, of)`: the `n`-th of `of` equal parts of its rows.
    Part(usize, usize),
    /// Rows become columns.
    Transposed,
    /// The part of each head that turns a latent vector into keys, with rows as columns.
    LatentKeys,
    /// The part of each head that turns a latent vector into values.
    LatentValues,
    /// −eˣ of every value.
    NegativeExp,
    /// Dimensions of one are left out.
    Squeezed,
    /// A convolution's channels and taps, with dimensions of one before each.
    Convolution,
    /// `(first, step)`: every `step`-th value of the last dimension, from `first` on.
    Every(usize, usize),
    /// `(first, step)`: every `step`-th column, from `first` on, becomes a row.
    TransposedEvery(usize, usize),
    /// `(n, of)`: the `n`-th of `of` equal parts of its columns, each of which becomes a row.
    TransposedPart(usize, usize),
    /// Gates or ups of experts, the first or second half of their rows, or of their columns that become rows: where the
    /// model's width stands tells which.
    GateUp(usize),
    /// Rows, or columns that become rows, in the same way.
    Down,
    /// Every value becomes a row.
    Column,
    /// −eˣ of every value, which becomes a row.
    ColumnNegativeExp,
    /// Values in groups, each of which becomes a row.
    InGroups,
    /// `(first, step)`: every `step`-th row, from `first` on, of blocks whose scales are in the tensor beside.
    Blocks(usize, usize),
    /// Groups of queries, keys and values become all queries, all keys, all values.
    Grouped,
    /// Of linear attention whose heads each have query, key, values and gates: all queries, all keys, all values.
    LinearQueries,
    /// Of the same all gates.
    LinearGate,
    /// Rows of value heads by key head: the first of every key head, then the second, and so on.
    Values,
    /// The same after the rows of queries and keys.
    ValuesAfterKeys,
    /// The same of a convolution's channels, without its dimension of one.
    ConvolvedValues,
    /// The same with one row, or one value, for each value head.
    ValueHeads,
    /// The same, and −eˣ of every value.
    ValueDecays,
    /// The same with columns.
    ValueColumns,
    /// Rows of zeros follow until there is one for every token.
    Padded,
    /// Every value times factors of the configuration, one after the other; a number after a point is a place in a list.
    Times(&'static [&'static str]),
    /// Rows that are input of a scan times their factors: gates, inputs, both of its vectors, steps.
    ScanInputs,
    /// Rows after as many as the number of the token that fills texts up, and one more.
    AfterPadding,
    /// It is left out.
    Skipped,
}

/// A pattern, what a tensor that matches it is called, and what becomes of it. A name that ends in `.weight` or `.bias`
/// is matched without that end, which then goes to the new name; others, and those whose pattern has the end, are
/// matched and named as a whole.
pub struct Rule {
    pub from: &'static str,
    pub to: &'static str,
    pub how: How,
}

/// A rule without a change.
pub const fn rule(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, how: How::AsIs }
}

/// A rule with a change.
pub const fn changed(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { from, to, how }
}

/// A rule for what is left out.
pub const fn skipped(from: &'static str) -> Rule {
    Rule { from, to: "", how: How::Skipped }
}

/// What a tensor of a checkpoint becomes, or a part of it.
#[derive(Debug, PartialEq)]
pub struct Target {
    /// The name in the GGUF file.
    pub name: String,
    /// Of which expert it is, where those of all experts become one tensor.
    pub expert: Option<usize>,
    pub how: How,
}

/// What a tensor becomes by the first table that knows it: more than one where several of its rules have the same
/// pattern, none where it is left out.
pub fn targets(tables: &[&[Rule]], name: &str) -> Option<Vec<Target>> {
    let (stem, end) = match name.rsplit_once('.') {
        Some((stem, "weight")) => (stem, ".weight"),
        Some((stem, "bias")) => (stem, ".bias"),
        _ => (name, ""),
    };
    let matched = |from: &'static str| match numbers(from, stem) {
        Some(numbers) => Some((from, numbers, end)),
        None => Some((from, numbers(from, name)?, "")),
    };
    let find = |table: &&[Rule]| table.iter().find_map(|rule| matched(rule.from));
    let (table, (from, numbers, end)) = tables.iter().find_map(|table| Some((table, find(table)?)))?;
    let rules = table.iter().filter(|rule| rule.from == from && rule.how != How::Skipped);
    let layer = numbers.layer.map_or_else(String::new, |layer| layer.to_string());
    let target = |rule: &Rule| {
        // What is added to factors is not added to what follows them.
        let how = if rule.how == How::PlusOne && end == ".bias" { How::AsIs } else { rule.how };
        Target { name: format!("{}{end}", rule.to.replace('#', &layer)), expert: numbers.expert, how }
    };
    Some(rules.map(target).collect())
}

#[derive(Clone, Copy, Default)]
struct Numbers {
    layer: Option<usize>,
    expert: Option<usize>,
}

/// The numbers in a name that matches a pattern.
fn numbers(pattern: &str, name: &str) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    let (mut wanted, mut found) = (pattern.split('.'), name.split('.'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return Some(numbers),
            (Some("#"), Some(part)) => numbers.layer = Some(number(part)?),
            (Some("*"), Some(part)) => numbers.expert = Some(number(part)?),
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return None,
        }
    }
}

/// A number below a million, written the only way it can be.
fn number(text: &str) -> Option<usize> {
    let plain = !text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

/// The names that Llama made common.
pub const LLAMA: &[Rule] = &[
    rule("model.embed_tokens", "token_embd"),
    rule("model.norm", "output_norm"),
    rule("lm_head", "output"),
    rule("model.layers.#.input_layernorm", "blk.#.attn_norm"),
    rule("model.layers.#.self_attn.q_proj", "blk.#.attn_q"),
    rule("model.layers.#.self_attn.k_proj", "blk.#.attn_k"),
    rule("model.layers.#.self_attn.v_proj", "blk.#.attn_v"),
    rule("model.layers.#.self_attn.o_proj", "blk.#.attn_output"),
    rule("model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"),
    rule("model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"),
    rule("model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
    rule("model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"),
    rule("model.layers.#.mlp.up_proj", "blk.#.ffn_up"),
    rule("model.layers.#.mlp.down_proj", "blk.#.ffn_down"),
    skipped("model.layers.#.self_attn.rotary_emb.inv_freq"),
];

/// The same with rotary pairs side by side.
pub const PAIRED: &[Rule] = &[
    changed("model.layers.#.self_attn.q_proj", "blk.#.attn_q", How::Queries),
    changed("model.layers.#.self_attn.k_proj", "blk.#.attn_k", How::Keys),
];

/// Norms before and after each half of a layer, as in Gemma 2.
pub const FOUR_NORMS: &[Rule] = &[
    rule("model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"),
    rule("model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"),
    rule("model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"),
];

/// Experts beside or instead of the feed-forward, each with matrices of its own or all in one.
pub const EXPERTS: &[Rule] = &[
    rule("model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.mlp.experts.*.gate_proj", "blk.#.ffn_gate_exps"),
    rule("model.layers.#.mlp.experts.*.up_proj", "blk.#.ffn_up_exps"),
    rule("model.layers.#.mlp.experts.*.down_proj", "blk.#.ffn_down_exps"),
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", How::Part(0, 2)),
    changed("model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", How::Part(1, 2)),
    rule("model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight"),
    rule("model.layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"),
    rule("model.layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"),
    rule("model.layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"),
    rule("model.layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp"),
    rule("model.layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"),
    rule("model.layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp"),
    rule("model.layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp"),
    rule("model.layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"),
];

/// Experts as Mixtral names them.
pub const BLOCKS: &[Rule] = &[
    rule("model.layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"),
    rule("model.layers.#.block_sparse_moe.experts.*.w1", "blk.#.ffn_gate_exps"),
    rule("model.layers.#.block_sparse_moe.experts.*.w2", "blk.#.ffn_down_exps"),
    rule("model.layers.#.block_sparse_moe.experts.*.w3", "blk.#.ffn_up_exps"),
    rule("model.layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias"),
];
