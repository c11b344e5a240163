//! Shared by the tests of all executors: random numbers, random blocks of every format, tiny models of
//! every family written as GGUF files, batches and schedules for them, and what every executor must do.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses its own part")]

pub mod adapters;
pub mod contract;
mod schedules;

use std::sync::Arc;

pub use schedules::{Place, Schedule, Sequences};

use gleed_gguf::{Array, Format, Gguf, Metadata, TensorInfo, TensorSpec, Value, Writer};
use gleed_model::arithmetic::PAGE;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::Program;
use gleed_model::{Batch, Executor, Model, Row};

/// A small random number generator (xorshift64*), the same on every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() >> 33) as usize % end
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Mostly of ordinary size, now and then tiny, huge or zero.
    pub fn float(&mut self) -> f32 {
        match self.below(40) {
            0 => 0.0,
            1 => -0.0,
            2 => self.unit() * 1e-38,
            3 => self.unit() * 1e6,
            _ => self.unit() * 3.0,
        }
    }

    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }

    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}

/// Bits of all values, for comparison.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Bits, with every "not a number" the same: its payload has no meaning.
pub fn comparable(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// The same of bits.
pub fn comparable_bits(bits: &[u32]) -> Vec<u32> {
    comparable(&bits.iter().map(|x| f32::from_bits(*x)).collect::<Vec<_>>())
}

/// Random blocks of a format whose values are of ordinary size.
pub fn random_blocks(random: &mut Random, format: Format, count: usize) -> Vec<u8> {
    let mut values = vec![0.0; format.block_len()];
    let mut bytes = Vec::with_capacity(count * format.block_bytes());
    for _ in 0..count {
        loop {
            let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| random.bits() as u8).collect();
            if matches!(format, Format::I8 | Format::I16 | Format::I32 | Format::I64) {
                // One small integer, little-endian.
                let sign = if block[0] & 1 == 0 { 0 } else { 255 };
                block.fill(sign);
                block[0] = (random.below(7) as u8 + 1) ^ sign;
            }
            format.decode(&block, &mut values);
            let largest =
                values.iter().fold(0.0f32, |m, x| if x.is_nan() { f32::NAN } else { m.max(x.abs()) });
            if largest < 8.0 && largest > 1e-3 {
                bytes.extend(block);
                break;
            }
        }
    }
    bytes
}

/// A file in memory with these tensors: name, shape, format and data.
pub fn file(metadata: &Metadata, tensors: &[(String, Vec<usize>, Format, Vec<u8>)]) -> Arc<Gguf> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let specs: Vec<TensorSpec> = tensors
        .iter()
        .map(|(name, shape, format, _)| TensorSpec {
            name: name.clone(),
            shape: shape.clone(),
            format: *format,
        })
        .collect();
    let mut writer = Writer::create(&path, metadata, &specs).unwrap();
    for (name, _, _, data) in tensors {
        writer.write(name, data).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(Gguf::from_vec("tiny.gguf", std::fs::read(&path).unwrap()).unwrap())
}

/// Families that have every mechanism but recurrent layers between them: gemma2 has windows, soft caps and norms in
/// place, olmo2 norms over whole rows and two rotary tables, qwen2moe experts and one that every row uses behind a
/// gate, gpt-oss experts with biases, sinks and a bounded activation, deepseek2 a latent cache, matrices of single
/// heads and experts in groups, mistral3 queries that grow with their position, gemma4 heads of two
/// sizes, layers that read the keys of others, embeddings of layers and experts beside the feed-forward, llama4 chunks,
/// norms after the rotation and experts that weigh what they read, gemma3n several residual streams and gates of which only
/// the largest open, stablelm halves side by side and layer norms of heads, step35 layers of several numbers of heads, a
/// gate for each head and bounded experts, apertus a non-linearity with numbers of its own, deepseek32 and glm_dsa
/// positions that an indexer chooses, in each layer or in some.
pub const FAMILIES: [&str; 18] = [
    "llama",
    "qwen2",
    "qwen3",
    "gpt2",
    "gemma2",
    "gemma3n",
    "gemma4",
    "olmo2",
    "qwen2moe",
    "gpt_oss",
    "deepseek2",
    "mistral3",
    "llama4",
    "stablelm",
    "step35",
    "apertus",
    "deepseek32",
    "glm_dsa",
];

/// Families that read a text both ways and give a vector: pooling of both kinds, learned positions, rotation, slopes,
/// windows on both sides, layers after the pooling.
pub const ENCODERS: [&str; 5] = ["bert", "nomic-bert", "jina-bert-v2", "modern-bert", "gemma-embedding"];

/// Families with every kind of recurrent layer between them.
pub const RECURRENT: [&str; 6] = ["lfm2", "mamba", "mamba2", "qwen35", "kimi_linear", "rwkv7"];

/// A test for each of some families, which calls a function with its name.
macro_rules! test_families {
    ($check:ident: $($family:ident),*) => {
        $(
            #[test]
            fn $family() {
                $check(stringify!($family));
            }
        )*
    };
}
pub(crate) use test_families;

pub const VOCABULARY: usize = 67;

/// The hyper-parameters of a tiny model of a family: head sizes that are not powers of two, shared
/// key heads, partial rotary dimensions and a stretched context where the family has them. `deepseek2_wide` keeps vectors
/// of so many dimensions that kernels of their own attend over them on matrix units.
pub fn tiny_metadata(family: &str) -> Metadata {
    let mut metadata = Metadata::default();
    let rank = if family == "deepseek2_wide" { 264 } else { 72 };
    let family = match family {
        "deepseek2_wide" => "deepseek2",
        "gpt_oss" => "gpt-oss",
        "kimi_linear" => "kimi-linear",
        "glm_dsa" => "glm-dsa",
        family => family,
    };
    metadata.set("general.architecture", Value::Str(family.to_string()));
    let mut set = |key: &str, value: Value| metadata.set(format!("{family}.{key}"), value);
    let mut sizes = vec![("block_count", 2), ("context_length", 512), ("embedding_length", 256)];
    match family {
        "llama" => {
            sizes.extend([("attention.head_count", 6), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 24)]);
            sizes.extend([("rope.dimension_count", 36), ("feed_forward_length", 512)]);
            set("rope.scaling.type", Value::Str("yarn".to_string()));
            set("rope.scaling.factor", Value::F32(4.0));
            set("rope.scaling.original_context_length", Value::U32(128));
        }
        "mistral3" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("rope.scaling.original_context_length", 13), ("feed_forward_length", 256)]);
            set("rope.scaling.type", Value::Str("yarn".to_string()));
            set("rope.scaling.factor", Value::F32(4.0));
            set("rope.scaling.yarn_log_multiplier", Value::F32(0.5));
            set("attention.temperature_scale", Value::F32(0.3));
        }
        "llama4" => {
            // A layer that sees chunks, and one that sees everything.
            sizes.extend([("block_count", 4), ("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("attention.sliding_window", 27), ("attention.temperature_length", 19)]);
            sizes.extend([("feed_forward_length", 256), ("interleave_moe_layer_step", 2)]);
            sizes.extend([("expert_count", 5), ("expert_used_count", 2), ("expert_feed_forward_length", 96)]);
        }
        "kimi-linear" => {
            sizes.extend([("attention.head_count", 3), ("kda.head_dim", 24), ("ssm.conv_kernel", 3)]);
            set("attention.head_count_kv", Value::Array(Array::I32(vec![0, 1])));
            sizes.extend([("attention.kv_lora_rank", 72), ("rope.dimension_count", 20)]);
            sizes.extend([("attention.key_length", 92), ("attention.value_length", 72)]);
            sizes.extend([("attention.key_length_mla", 52), ("attention.value_length_mla", 40)]);
            sizes.extend([("leading_dense_block_count", 1), ("feed_forward_length", 256)]);
            sizes.extend([("expert_count", 6), ("expert_used_count", 2), ("expert_feed_forward_length", 96)]);
        }
        "rwkv7" => {
            // Heads of one and a half blocks of channels.
            sizes.extend([("embedding_length", 288), ("wkv.head_size", 24), ("feed_forward_length", 256)]);
            sizes.extend([("attention.decay_lora_rank", 32), ("attention.iclr_lora_rank", 20)]);
            sizes.extend([("attention.value_residual_mix_lora_rank", 12), ("attention.gate_lora_rank", 40)]);
        }
        "step35" => {
            // The first layer sees everything and has no experts.
            set("attention.head_count", Value::Array(Array::I32(vec![4, 6])));
            sizes.extend([("attention.head_count_kv", 2), ("rope.dimension_count", 40)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("feed_forward_length", 256), ("attention.sliding_window", 21)]);
            set("attention.sliding_window_pattern", Value::Array(Array::Bool(vec![false, true])));
            sizes.extend([("expert_count", 5), ("expert_used_count", 2), ("expert_feed_forward_length", 96)]);
            sizes.extend([("expert_shared_feed_forward_length", 64)]);
            set("swiglu_clamp_exp", Value::Array(Array::F32(vec![0.0, 0.3])));
            set("swiglu_clamp_shexp", Value::Array(Array::F32(vec![0.0, 0.2])));
        }
        "stablelm" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("rope.dimension_count", 20), ("feed_forward_length", 256)]);
        }
        "apertus" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("feed_forward_length", 256)]);
        }
        "qwen2" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 1)]);
            sizes.extend([("feed_forward_length", 256)]);
        }
        "qwen3" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 48), ("attention.value_length", 48)]);
            sizes.extend([("feed_forward_length", 256)]);
            set("rope.freq_base", Value::F32(1e6));
        }
        "gemma2" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("feed_forward_length", 256), ("attention.sliding_window", 21)]);
            set("attn_logit_softcapping", Value::F32(5.0));
            set("final_logit_softcapping", Value::F32(3.0));
        }
        "gemma4" => {
            sizes.extend([("block_count", 5), ("attention.head_count", 4)]);
            set("attention.head_count_kv", Value::Array(Array::I32(vec![2, 1, 2, 1, 2])));
            sizes.extend([("attention.key_length", 48), ("attention.value_length", 48)]);
            sizes.extend([("attention.key_length_swa", 40), ("attention.value_length_swa", 40)]);
            sizes.extend([("attention.sliding_window", 21), ("attention.sliding_window_pattern", 2)]);
            sizes.extend([("attention.shared_kv_layers", 2), ("embedding_length_per_layer_input", 32)]);
            set("feed_forward_length", Value::Array(Array::I32(vec![256, 256, 256, 96, 96])));
            sizes.extend([("expert_count", 5), ("expert_used_count", 2), ("expert_feed_forward_length", 96)]);
            set("final_logit_softcapping", Value::F32(3.0));
        }
        "gemma3n" => {
            sizes.extend([("block_count", 4), ("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("attention.sliding_window", 21), ("attention.sliding_window_pattern", 2)]);
            sizes.extend([("attention.shared_kv_layers", 1), ("embedding_length_per_layer_input", 32)]);
            sizes.extend([("feed_forward_length", 256), ("altup.num_inputs", 3)]);
            let spreads = vec![0.5, f32::NEG_INFINITY, 0.8, 0.0];
            set("activation_sparsity_scale", Value::Array(Array::F32(spreads)));
        }
        "olmo2" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("feed_forward_length", 256), ("attention.sliding_window", 70)]);
        }
        "mamba" | "mamba2" => sizes.extend(state_space(family)),
        "qwen35" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("feed_forward_length", 256), ("full_attention_interval", 2)]);
            sizes.extend(state_space(family));
        }
        "lfm2" => {
            sizes.extend([
                ("attention.head_count", 4),
                ("feed_forward_length", 256),
                ("shortconv.l_cache", 3),
            ]);
            set("attention.head_count_kv", Value::Array(Array::I32(vec![0, 2])));
        }
        "modern-bert" => {
            sizes.extend([("attention.head_count", 4), ("feed_forward_length", 256)]);
            sizes.extend([("attention.sliding_window", 21), ("attention.sliding_window_pattern", 2)]);
        }
        "gemma-embedding" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("feed_forward_length", 256), ("attention.sliding_window", 40)]);
            sizes.extend([("attention.sliding_window_pattern", 2), ("dense_2_feat_in", 256)]);
            sizes.extend([("dense_2_feat_out", 96), ("dense_3_feat_in", 96), ("dense_3_feat_out", 256)]);
        }
        "bert" => {
            // The first row of a text stands for it.
            sizes.extend([("attention.head_count", 8), ("feed_forward_length", 512), ("pooling_type", 2)]);
        }
        "qwen2moe" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("feed_forward_length", 256), ("expert_count", 7), ("expert_used_count", 3)]);
            sizes.extend([("expert_feed_forward_length", 96), ("expert_shared_feed_forward_length", 64)]);
        }
        "gpt-oss" => {
            sizes.extend([("attention.head_count", 4), ("attention.head_count_kv", 2)]);
            sizes.extend([("attention.key_length", 40), ("attention.value_length", 40)]);
            sizes.extend([("rope.dimension_count", 40), ("attention.sliding_window", 21)]);
            sizes.extend([("feed_forward_length", 256), ("expert_count", 5), ("expert_used_count", 2)]);
        }
        "deepseek2" | "deepseek32" | "glm-dsa" => {
            if family != "deepseek2" {
                sizes.extend([("attention.indexer.head_count", 5), ("attention.indexer.key_length", 28)]);
                sizes.extend([("attention.indexer.top_k", 13)]);
            }
            if family == "glm-dsa" {
                set("attention.indexer.types", Value::Array(Array::Bool(vec![true, false])));
            }
            sizes.extend([("attention.head_count", 3), ("attention.head_count_kv", 1)]);
            sizes.extend([("attention.kv_lora_rank", rank), ("attention.q_lora_rank", 48)]);
            sizes.extend([("attention.key_length", rank + 20), ("attention.value_length", rank)]);
            sizes.extend([("attention.key_length_mla", 52), ("attention.value_length_mla", 40)]);
            sizes.extend([("rope.dimension_count", 20), ("feed_forward_length", 256)]);
            sizes.extend([("leading_dense_block_count", 1), ("expert_shared_count", 1)]);
            sizes.extend([("expert_count", 6), ("expert_used_count", 2), ("expert_feed_forward_length", 96)]);
            sizes.extend([("expert_group_count", 3), ("expert_group_used_count", 2)]);
            sizes.extend([("expert_gating_func", 2)]);
        }
        _ => sizes.extend([("attention.head_count", 4), ("feed_forward_length", 512)]),
    }
    for (key, size) in sizes {
        set(key, Value::U32(size));
    }
    let layer_norms =
        ["gpt2", "stablelm", "gptneox", "falcon", "rwkv7"].contains(&family) || family.contains("bert");
    let epsilon = if layer_norms { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
    set(&format!("attention.{epsilon}"), Value::F32(1e-5));
    if family == "apertus" {
        for (key, numbers) in
            [("alpha_p", [0.8, 0.3]), ("alpha_n", [0.7, -0.4]), ("beta", [0.5; 2]), ("eps", [-1e-6; 2])]
        {
            metadata.set(format!("xielu.{key}"), Value::Array(Array::F32(numbers.to_vec())));
        }
    }
    metadata
}

/// Channels, heads and groups that fill no vector evenly.
fn state_space(family: &str) -> [(&'static str, u32); 5] {
    let [taps, inner, state, rank, groups] = match family {
        "mamba" => [4, 200, 12, 24, 1],
        "mamba2" => [3, 160, 20, 8, 2],
        _ => [4, 144, 24, 6, 2],
    };
    [
        ("ssm.conv_kernel", taps),
        ("ssm.inner_size", inner),
        ("ssm.state_size", state),
        ("ssm.time_step_rank", rank),
        ("ssm.group_count", groups),
    ]
}

/// A tiny random model: matrices take `formats` in turn (F32 where a block is longer than a row).
pub fn tiny(family: &str, formats: &[Format], seed: u64) -> (Arc<Gguf>, Program) {
    let metadata = tiny_metadata(family);
    let of_encoders = |name: &str| {
        let fused = family == "nomic-bert" && name.ends_with("attn_qkv.weight");
        fused
            || name.starts_with("dense_")
            || name == "token_types.weight"
            || name.ends_with(".bias")
            || name.ends_with("ffn_gate.weight")
    };
    let of_decoders = |name: &str| {
        // Values of their own in one layer, copied keys in the others.
        let of_gemma4 = ["blk.0.attn_v.weight", "gate_up_exps.weight", "exps.scale"];
        let of_step35 = ["attn_gate.weight", "blk.1.ffn_gate_inp.weight", "attn_q_norm.weight"];
        let of_stablelm = ["attn_q_norm.weight", "attn_k_norm.weight"];
        name == "output.weight"
            || name.ends_with("exps.bias")
            || name.ends_with("exp_probs_b.bias")
            || name.contains("shexp")
            || family == "gemma4" && of_gemma4.iter().any(|end| name.ends_with(end))
            || family == "step35" && of_step35.iter().any(|end| name.ends_with(end))
            || family == "stablelm" && of_stablelm.iter().any(|end| name.ends_with(end))
    };
    let optional = |name: &str| {
        if ENCODERS.contains(&family) { of_encoders(name) } else { of_decoders(name) }
    };
    let plan = Model::plan(&metadata, VOCABULARY, optional).unwrap();
    let mut random = Random::new(seed);
    let mut tensors = Vec::new();
    for (index, weight) in plan.program.weights.iter().enumerate() {
        let (rows, columns) = (weight.experts * weight.rows, weight.columns);
        let mut format = formats[index % formats.len()];
        if rows == 1 || !columns.is_multiple_of(format.block_len()) {
            format = Format::F32;
        }
        // Small enough that activations neither grow nor vanish; norms around 1.
        let reach = if rows == 1 { 0.2 } else { 2.0 / (columns as f32).sqrt() };
        let (middle, reach) = match &weight.name {
            name if name.ends_with("norm.weight") => (1.0, reach),
            // Decays: states must not grow.
            name if name.ends_with("ssm_a") => (-2.0, 1.5),
            _ => (0.0, reach),
        };
        let values: Vec<f32> = (0..rows * columns).map(|_| middle + reach * random.unit()).collect();
        let mut bytes = vec![0; rows * format.row_bytes(columns).unwrap()];
        format.encode(&values, &mut bytes).unwrap();
        let shape = match (weight.experts, weight.rows) {
            (1, 1) => vec![columns],
            (1, rows) => vec![columns, rows],
            (experts, rows) => vec![columns, rows, experts],
        };
        tensors.push((weight.name.clone(), shape, format, bytes));
    }
    let file = file(&metadata, &tensors);
    let program = Model::load(&file).unwrap().program;
    (file, program)
}

/// The same with NaN or an infinity in one weight: as its first value, or as the scale of its first block.
pub fn damaged(family: &str, formats: &[Format], weight: &str, bad: f32) -> (Arc<Gguf>, Program) {
    let (whole, program) = tiny(family, formats, 3);
    let mut found = false;
    let mut copy = |tensor: &TensorInfo| {
        let mut data = whole.data(tensor).to_vec();
        if tensor.name == weight {
            damage(tensor.format, &mut data, bad);
            found = true;
        }
        (tensor.name.clone(), tensor.shape.clone(), tensor.format, data)
    };
    let tensors: Vec<_> = whole.tensors().iter().map(&mut copy).collect();
    assert!(found, "{family} has no {weight}");
    (file(&tiny_metadata(family), &tensors), program)
}

fn damage(format: Format, data: &mut [u8], bad: f32) {
    // The upper half of the bits is a BF16, and with fewer bits of exponent an F16.
    let upper = (bad.to_bits() >> 16) as u16;
    let half = (upper & 0x8000 | if bad.is_nan() { 0x7e00 } else { 0x7c00 }).to_le_bytes();
    match format {
        Format::F32 => data[..4].copy_from_slice(&bad.to_le_bytes()),
        Format::BF16 => data[..2].copy_from_slice(&upper.to_le_bytes()),
        Format::F16 | Format::Q8_0 | Format::Q4_0 | Format::Q4_1 | Format::Q4_K | Format::IQ4_NL => {
            data[..2].copy_from_slice(&half);
        }
        Format::Q6_K => data[208..210].copy_from_slice(&half),
        format => panic!("where has {format} its scale?"),
    }
}

/// A batch of rows `(sequence, position, token, wanted)`. Sequence `s` owns pages `s`, `s + stride`, …
pub fn batch(rows: &[(usize, usize, u32, bool)], sequences: usize, pages: usize) -> Batch {
    let mut batch = Batch::default();
    for sequence in 0..sequences {
        let table: Vec<u32> = (0..pages).skip(sequence).step_by(sequences).map(|p| p as u32).collect();
        batch.add_table(&table);
    }
    for &(sequence, position, token, wants_logits) in rows {
        assert!(position / PAGE < pages / sequences);
        batch.push(Row { table: sequence as u32, position: position as u32, token, wants_logits });
    }
    batch
}

/// Runs rows and returns the bits of the logits of the wanted ones.
pub fn logits(executor: &mut dyn Executor, batch: &Batch) -> Vec<Vec<u32>> {
    executor.step(batch, &mut ()).unwrap();
    (0..batch.wanted().count()).map(|i| bits(executor.logits(i))).collect()
}

/// The bits of everything that each node wrote.
pub struct Capture<'a> {
    program: &'a Program,
    started: usize,
    outputs: Vec<Vec<u32>>,
}

impl<'a> Capture<'a> {
    pub fn run(program: &'a Program, executor: &mut dyn Executor, batch: &Batch) -> Vec<Vec<u32>> {
        let mut capture = Capture { program, started: 0, outputs: Vec::new() };
        executor.step(batch, &mut capture).unwrap();
        assert_eq!(capture.started, 1);
        capture.outputs
    }
}

impl Observer for Capture<'_> {
    fn start(&mut self) {
        self.started += 1;
    }

    fn after(&mut self, node: usize, buffers: &dyn Buffers) {
        assert_eq!(node, self.outputs.len());
        let mut values = Vec::new();
        self.program.nodes[node].op.outputs().iter().for_each(|view| buffers.read(*view, &mut values));
        self.outputs.push(bits(&values));
    }
}
