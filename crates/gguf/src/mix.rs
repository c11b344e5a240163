//! Mixes: which format each tensor of a model takes when a file is quantised "to Q4_K_M". Sensitive
//! tensors (the output, attention values, the down projection of some layers) get more bits than the
//! rest. The recipes are those of llama.cpp's `llama-quantize`, so that a file of ours and one of its
//! under the same name hold the same formats.

use crate::{Error, Format, Result};

/// A mix of formats, known by the name users type and by the `general.file_type` id in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, missing_docs, reason = "the names are those of the mixes")]
pub enum Mix {
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q2_K_S,
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    IQ3_M,
    IQ3_S,
    IQ3_XS,
    IQ3_XXS,
    IQ2_M,
    IQ2_S,
    IQ2_XS,
    IQ2_XXS,
    IQ1_M,
    IQ1_S,
    MXFP4,
}

/// Each mix with its name, its `general.file_type` id and the format most of its tensors take.
const MIXES: [(Mix, &str, u32, Format); 31] = [
    (Mix::F32, "f32", 0, Format::F32),
    (Mix::F16, "f16", 1, Format::F16),
    (Mix::BF16, "bf16", 32, Format::BF16),
    (Mix::Q8_0, "q8_0", 7, Format::Q8_0),
    (Mix::Q4_0, "q4_0", 2, Format::Q4_0),
    (Mix::Q4_1, "q4_1", 3, Format::Q4_1),
    (Mix::Q5_0, "q5_0", 8, Format::Q5_0),
    (Mix::Q5_1, "q5_1", 9, Format::Q5_1),
    (Mix::Q2_K, "q2_k", 10, Format::Q2_K),
    (Mix::Q2_K_S, "q2_k_s", 21, Format::Q2_K),
    (Mix::Q3_K_S, "q3_k_s", 11, Format::Q3_K),
    (Mix::Q3_K_M, "q3_k_m", 12, Format::Q3_K),
    (Mix::Q3_K_L, "q3_k_l", 13, Format::Q3_K),
    (Mix::Q4_K_S, "q4_k_s", 14, Format::Q4_K),
    (Mix::Q4_K_M, "q4_k_m", 15, Format::Q4_K),
    (Mix::Q5_K_S, "q5_k_s", 16, Format::Q5_K),
    (Mix::Q5_K_M, "q5_k_m", 17, Format::Q5_K),
    (Mix::Q6_K, "q6_k", 18, Format::Q6_K),
    (Mix::IQ4_NL, "iq4_nl", 25, Format::IQ4_NL),
    (Mix::IQ4_XS, "iq4_xs", 30, Format::IQ4_XS),
    (Mix::IQ3_M, "iq3_m", 27, Format::IQ3_S),
    (Mix::IQ3_S, "iq3_s", 26, Format::IQ3_S),
    (Mix::IQ3_XS, "iq3_xs", 22, Format::IQ3_S),
    (Mix::IQ3_XXS, "iq3_xxs", 23, Format::IQ3_XXS),
    (Mix::IQ2_M, "iq2_m", 29, Format::IQ2_S),
    (Mix::IQ2_S, "iq2_s", 28, Format::IQ2_XS),
    (Mix::IQ2_XS, "iq2_xs", 20, Format::IQ2_XS),
    (Mix::IQ2_XXS, "iq2_xxs", 19, Format::IQ2_XXS),
    (Mix::IQ1_M, "iq1_m", 31, Format::IQ1_M),
    (Mix::IQ1_S, "iq1_s", 24, Format::IQ1_S),
    (Mix::MXFP4, "mxfp4", 38, Format::MXFP4),
];

/// What a recipe needs to know about a model beside its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// Number of layers (`block_count`).
    pub layers: usize,
    /// Number of attention heads of a layer.
    pub heads: usize,
    /// Number of key/value heads of a layer.
    pub kv_heads: usize,
    /// Number of experts of a layer, or 0.
    pub experts: usize,
    /// Whether an importance matrix says which errors matter.
    pub importance: bool,
}

/// What becomes of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFormat {
    /// The format to encode to; `None` keeps the tensor as it is (norms, biases, routers, positions).
    pub format: Option<Format>,
    /// The format the recipe asked for, where the tensor's rows are not whole blocks of it and `format`
    /// stands in. Tell the user.
    pub instead_of: Option<Format>,
}

/// The role of a tensor, as far as recipes care.
#[derive(Clone, Copy, PartialEq)]
enum TensorRole {
    Output,
    TokenEmbedding,
    AttentionValue,
    AttentionKey,
    AttentionQuery,
    AttentionOutput,
    Gate,
    Up,
    Down,
    Other,
}

impl Mix {
    /// The mix of this name, in upper or lower case; `q3_k`, `q4_k` and `q5_k` stand for their `_m`.
    pub fn from_name(name: &str) -> Result<Mix> {
        let lower = name.to_ascii_lowercase();
        let full = match lower.as_str() {
            "q3_k" | "q4_k" | "q5_k" => format!("{lower}_m"),
            "mxfp4_moe" => "mxfp4".to_owned(),
            _ => lower,
        };
        MIXES.iter().find(|entry| entry.1 == full).map(|entry| entry.0).ok_or_else(|| {
            let names: Vec<&str> = Mix::all().map(Mix::name).collect();
            Error::Unsupported(format!("unknown type {name}; known types: {}", names.join(" ")))
        })
    }

    /// Every mix there is.
    pub fn all() -> impl Iterator<Item = Mix> {
        MIXES.iter().map(|entry| entry.0)
    }

    fn entry(self) -> &'static (Mix, &'static str, u32, Format) {
        &MIXES[self as usize]
    }

    /// The name, such as `q4_k_m`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// The value of `general.file_type` in a file of this mix.
    pub fn file_type(self) -> u32 {
        self.entry().2
    }

    /// The format that most tensors take.
    pub fn base(self) -> Format {
        self.entry().3
    }

    /// Whether so few bits are left that the mix is hardly of use without an importance matrix.
    pub fn needs_importance(self) -> bool {
        self.is_two_bit_or_less() || matches!(self, Mix::Q2_K_S | Mix::IQ3_XS | Mix::IQ3_XXS)
    }

    fn is_two_bit_or_less(self) -> bool {
        self.name().starts_with("iq2") || self.name().starts_with("iq1")
    }

    /// What sensitive tensors of a mix of two bits or less take.
    fn more_than_two_bits(self) -> Format {
        if matches!(self, Mix::IQ2_M | Mix::IQ2_S) { Format::IQ3_S } else { Format::Q2_K }
    }

    /// Chooses the format of every tensor of a model, given as `(name, shape)` with the fastest dimension
    /// first, all of them and in any order. The choices are in the order of the tensors.
    pub fn plan(self, tensors: &[(&str, &[usize])], facts: &Facts) -> Vec<TensorFormat> {
        let tied = !tensors.iter().any(|(name, _)| *name == "output.weight");
        // Which of its role a tensor is counts by layer, wherever it stands in the file.
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|&i| layer_of(tensors[i].0));
        let values = tensors.iter().filter(|(name, _)| role_of(name) == TensorRole::AttentionValue).count();
        let (mut values_seen, mut downs_seen, mut gates_seen, mut ups_seen) = (0, 0, 0, 0);
        // A layer with experts may have several tensors of a role.
        let place = |name: &str, seen: &mut usize| {
            *seen += 1;
            let counted = *seen - 1;
            if facts.experts > 1 && !self.is_two_bit_or_less() {
                layer_of(name).unwrap_or(counted)
            } else {
                counted
            }
        };

        let mut choices = vec![TensorFormat { format: None, instead_of: None }; tensors.len()];
        for i in order {
            let (name, shape) = tensors[i];
            if !is_encoded(name, shape) {
                continue;
            }
            let columns = shape.first().copied().unwrap_or(0);
            let role = match role_of(name) {
                TensorRole::TokenEmbedding if tied => TensorRole::Output,
                role => role,
            };
            let wanted = match role {
                _ if self.base().block_len() == 1 => self.base(),
                TensorRole::Output => self.output(columns),
                _ if self == Mix::MXFP4 => {
                    if shape.get(2).is_some_and(|&experts| experts > 1) {
                        Format::MXFP4
                    } else {
                        Format::Q8_0
                    }
                }
                TensorRole::AttentionValue => {
                    values_seen += 1;
                    self.attention_value(values_seen - 1, values, facts)
                }
                TensorRole::AttentionKey if facts.experts == 8 => {
                    if self.is_two_bit_or_less() {
                        Format::Q4_K
                    } else {
                        Format::Q8_0
                    }
                }
                TensorRole::AttentionKey | TensorRole::AttentionQuery => self.attention_query(),
                TensorRole::AttentionOutput => self.attention_output(facts),
                TensorRole::Gate => self.gate(place(name, &mut gates_seen), facts.layers),
                TensorRole::Up => self.gate(place(name, &mut ups_seen), facts.layers),
                TensorRole::Down => self.down(place(name, &mut downs_seen), facts),
                TensorRole::TokenEmbedding => self.embedding(),
                TensorRole::Other => self.base(),
            };
            let format = fitting(wanted, columns);
            choices[i] =
                TensorFormat { format: Some(format), instead_of: (format != wanted).then_some(wanted) };
        }
        choices
    }

    /// The output, or the token embedding where it serves as the output too.
    fn output(self, columns: usize) -> Format {
        let base = self.base();
        if matches!(self, Mix::MXFP4 | Mix::Q8_0) || !columns.is_multiple_of(base.block_len()) {
            Format::Q8_0
        } else if self.is_two_bit_or_less() || self == Mix::IQ3_XXS {
            Format::Q5_K
        } else {
            Format::Q6_K
        }
    }

    /// The token embedding, where it is not the output too.
    fn embedding(self) -> Format {
        match self {
            _ if self.is_two_bit_or_less() => self.more_than_two_bits(),
            Mix::IQ3_XXS => Format::IQ3_S,
            _ => self.base(),
        }
    }

    /// Attention queries and keys.
    fn attention_query(self) -> Format {
        match self {
            Mix::IQ3_XS => Format::IQ3_XXS,
            Mix::IQ3_XXS => Format::IQ2_S,
            _ => self.base(),
        }
    }

    /// The gate or the up projection of a layer.
    fn gate(self, layer: usize, layers: usize) -> Format {
        match self {
            Mix::IQ3_XS if (layers / 8..7 * layers / 8).contains(&layer) => Format::IQ3_XXS,
            _ => self.base(),
        }
    }

    /// Attention values, alone or joined with queries and keys: the `index`-th of `count`.
    fn attention_value(self, index: usize, count: usize, facts: &Facts) -> Format {
        let heads_share = facts.kv_heads > 0 && facts.heads / facts.kv_heads >= 4;
        if self.is_two_bit_or_less() {
            let small = heads_share || facts.experts >= 4;
            return if small { Format::Q4_K } else { self.more_than_two_bits() };
        }
        if facts.experts == 8 {
            return Format::Q8_0;
        }
        let format = match self {
            Mix::Q2_K if heads_share => Format::Q4_K,
            Mix::Q2_K => Format::Q3_K,
            Mix::Q3_K_M if index >= 2 => Format::Q4_K,
            Mix::Q3_K_M | Mix::Q3_K_L => Format::Q5_K,
            Mix::Q4_K_S if index < 4 => Format::Q5_K,
            Mix::Q4_K_M | Mix::Q5_K_M if takes_more_bits(index, count) => Format::Q6_K,
            Mix::IQ4_NL | Mix::IQ4_XS if heads_share => Format::Q5_K,
            Mix::Q2_K_S | Mix::IQ3_XXS | Mix::IQ3_XS | Mix::IQ3_S if heads_share => Format::Q4_K,
            Mix::IQ3_M => Format::Q4_K,
            Mix::IQ3_XXS if !facts.importance => Format::IQ3_S,
            _ => self.base(),
        };
        // In the 70B models eight heads share each value head: more bits cost almost nothing.
        let seventy_billion = facts.layers == 80 && facts.heads != facts.kv_heads;
        match format {
            Format::Q3_K | Format::Q4_K if seventy_billion => Format::Q5_K,
            _ => format,
        }
    }

    fn attention_output(self, facts: &Facts) -> Format {
        let few = |mix| matches!(mix, Mix::Q2_K | Mix::Q3_K_S | Mix::Q3_K_M | Mix::Q4_K_S | Mix::Q4_K_M);
        match self {
            _ if facts.experts == 8 && (few(self) || self.name().starts_with("iq")) => Format::Q5_K,
            _ if facts.experts == 8 => self.base(),
            Mix::IQ2_M | Mix::IQ2_S | Mix::IQ3_XXS => Format::IQ3_S,
            Mix::IQ1_M | Mix::IQ1_S => Format::IQ2_XXS,
            Mix::Q2_K => Format::Q3_K,
            Mix::Q3_K_M | Mix::IQ3_M => Format::Q4_K,
            Mix::Q3_K_L => Format::Q5_K,
            _ => self.base(),
        }
    }

    /// The down projection of a layer.
    fn down(self, layer: usize, facts: &Facts) -> Format {
        let layers = facts.layers;
        match self {
            _ if self.is_two_bit_or_less() && layer < layers / 8 => self.more_than_two_bits(),
            Mix::Q2_K => Format::Q3_K,
            Mix::Q2_K_S if layer < layers / 8 => Format::Q4_K,
            Mix::IQ3_XXS if !facts.importance && layer < layers / 8 => Format::Q4_K,
            Mix::IQ3_XXS if !facts.importance => Format::Q3_K,
            Mix::IQ3_M if layer < layers / 8 => Format::Q4_K,
            Mix::IQ3_M if facts.experts == 8 && takes_more_bits(layer, layers) => Format::Q4_K,
            Mix::Q3_K_M if layer < layers / 16 => Format::Q5_K,
            Mix::Q3_K_M => Format::Q4_K,
            Mix::Q3_K_L => Format::Q5_K,
            Mix::Q4_K_M | Mix::Q5_K_M if takes_more_bits(layer, layers) => Format::Q6_K,
            Mix::Q4_K_S if layer < layers / 8 => Format::Q5_K,
            Mix::IQ4_NL | Mix::IQ4_XS if layer < layers / 8 && !facts.importance => Format::Q5_K,
            // Even so the first layers can lose too much.
            Mix::Q4_0 if layer < layers / 8 && facts.importance => Format::Q4_1,
            Mix::Q5_0 if layer < layers / 8 && facts.importance => Format::Q5_1,
            _ => self.base(),
        }
    }
}

/// Whether a layer is among the first or last eighth, or every third between.
fn takes_more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// The layer that a tensor's name states, as in `blk.12.attn_v.weight`.
fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn role_of(name: &str) -> TensorRole {
    match name {
        "output.weight" => TensorRole::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => TensorRole::TokenEmbedding,
        _ if ["attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"].iter().any(|v| name.contains(v)) => {
            TensorRole::AttentionValue
        }
        _ if name.contains("attn_k.weight") => TensorRole::AttentionKey,
        _ if name.contains("attn_q.weight") => TensorRole::AttentionQuery,
        _ if name.contains("attn_output.weight") => TensorRole::AttentionOutput,
        _ if name.contains("ffn_up") => TensorRole::Up,
        _ if name.contains("ffn_gate") => TensorRole::Gate,
        _ if name.contains("ffn_down") => TensorRole::Down,
        _ => TensorRole::Other,
    }
}

/// Whether a tensor is encoded at all: weights of two or more dimensions, except those that are small
/// and sensitive.
fn is_encoded(name: &str, shape: &[usize]) -> bool {
    const KEPT: [&str; 15] = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "altup",
        "laurel",
        // RWKV's matrices with few values between two of them, and its shares.
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_v1.weight",
        "time_mix_v2.weight",
        "time_mix_a1.weight",
        "time_mix_a2.weight",
        "time_mix_g1.weight",
        "time_mix_g2.weight",
        "time_mix_lerp_fused.weight",
    ];
    let dimensions = shape.iter().rposition(|&n| n > 1).map_or(0, |last| last + 1);
    dimensions >= 2
        && name.ends_with("weight")
        && name != "position_embd.weight"
        && name != "token_types.weight"
        && !KEPT.iter().any(|kept| name.contains(kept))
}

/// The format itself where rows of `columns` are whole blocks of it, else one of similar size with
/// blocks of 32, else F16.
fn fitting(wanted: Format, columns: usize) -> Format {
    let stand_in = match wanted {
        Format::Q2_K | Format::Q3_K => Format::Q4_0,
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::Q6_K => Format::Q8_0,
        Format::IQ1_S | Format::IQ1_M => Format::IQ4_NL,
        Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => Format::IQ4_NL,
        Format::IQ3_XXS | Format::IQ3_S | Format::IQ4_XS => Format::IQ4_NL,
        _ => Format::F16,
    };
    [wanted, stand_in]
        .into_iter()
        .find(|format| columns.is_multiple_of(format.block_len()))
        .unwrap_or(Format::F16)
}
