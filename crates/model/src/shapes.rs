//! The shapes of well-known models, so that a file of the same size and cost can be made up without
//! downloading anything.

use gleed_gguf::{Array, Metadata, Value};

use crate::program::Weight;
use crate::{Model, Result};

/// The hyper-parameters of a well-known model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The name it is asked for by.
    pub name: &'static str,
    /// `general.architecture`.
    pub architecture: &'static str,
    layers: u32,
    width: u32,
    feed_forward: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    context: u32,
    /// Entries of the vocabulary.
    pub vocabulary: u32,
    rope_base: f32,
    epsilon: f32,
    /// Whether the output matrix is the embedding table.
    tied: bool,
    /// The extension that Llama 3's table of rotary factors brings; 0 without such a table.
    llama3_factor: f32,
    /// Positions that most layers see; 0 where all see all.
    window: u32,
    /// Rotated values of a head; 0 for all.
    rotated: u32,
    /// What only its family has.
    keys: &'static [(&'static str, Key)],
}

/// The value of a key that only some families have.
#[derive(Debug, Clone, Copy)]
enum Key {
    Size(u32),
    /// One for each layer.
    Sizes(&'static [u32]),
}

impl Key {
    fn value(self) -> Value {
        match self {
            Key::Size(size) => Value::U32(size),
            Key::Sizes(sizes) => Value::Array(Array::U32(sizes.to_vec())),
        }
    }
}

const LLAMA: Shape = Shape {
    name: "",
    architecture: "llama",
    layers: 0,
    width: 0,
    feed_forward: 0,
    heads: 0,
    kv_heads: 0,
    head_dim: 0,
    context: 2048,
    vocabulary: 32_000,
    rope_base: 10_000.0,
    epsilon: 1e-5,
    tied: false,
    llama3_factor: 0.0,
    window: 0,
    rotated: 0,
    keys: &[],
};
const LLAMA3: Shape =
    Shape { context: 131_072, vocabulary: 128_256, rope_base: 500_000.0, llama3_factor: 32.0, ..LLAMA };
const SMOLLM2: Shape =
    Shape { head_dim: 64, context: 8192, vocabulary: 49_152, rope_base: 100_000.0, tied: true, ..LLAMA };
const QWEN2: Shape = Shape {
    architecture: "qwen2",
    context: 32_768,
    vocabulary: 151_936,
    rope_base: 1_000_000.0,
    epsilon: 1e-6,
    ..LLAMA
};
const QWEN3: Shape = Shape { architecture: "qwen3", kv_heads: 8, head_dim: 128, context: 40_960, ..QWEN2 };
const GEMMA3: Shape = Shape {
    architecture: "gemma3",
    head_dim: 256,
    context: 32_768,
    vocabulary: 262_144,
    rope_base: 1_000_000.0,
    epsilon: 1e-6,
    tied: true,
    window: 512,
    ..LLAMA
};
const GEMMA3_LARGE: Shape = Shape { context: 131_072, vocabulary: 262_208, window: 1024, ..GEMMA3 };
const PHI4_MINI: Shape =
    Shape { architecture: "phi3", context: 131_072, vocabulary: 200_064, tied: true, rotated: 96, ..LLAMA };
const GPT2: Shape =
    Shape { architecture: "gpt2", head_dim: 64, context: 1024, vocabulary: 50_257, tied: true, ..LLAMA };
const LFM2: Shape = Shape {
    architecture: "lfm2",
    context: 128_000,
    vocabulary: 65_536,
    rope_base: 1_000_000.0,
    tied: true,
    ..LLAMA
};
/// Layers without key heads are convolutions.
const LFM2_KEYS: &[(&str, Key)] = &[
    ("shortconv.l_cache", Key::Size(3)),
    ("attention.head_count_kv", Key::Sizes(&[0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0])),
];
const MAMBA2: Shape =
    Shape { architecture: "mamba2", context: 1_048_576, vocabulary: 50_288, tied: true, ..LLAMA };
const MAMBA2_KEYS: &[(&str, Key)] = &[
    ("ssm.conv_kernel", Key::Size(4)),
    ("ssm.inner_size", Key::Size(4096)),
    ("ssm.state_size", Key::Size(128)),
    ("ssm.time_step_rank", Key::Size(64)),
    ("ssm.group_count", Key::Size(1)),
];
const MIXTRAL: Shape = Shape { context: 32_768, rope_base: 1_000_000.0, ..LLAMA };
const MIXTRAL_KEYS: &[(&str, Key)] = &[("expert_count", Key::Size(8)), ("expert_used_count", Key::Size(2))];
const QWEN3_MOE: Shape = Shape { architecture: "qwen3moe", ..QWEN3 };
const QWEN3_MOE_KEYS: &[(&str, Key)] = &[
    ("expert_count", Key::Size(128)),
    ("expert_used_count", Key::Size(8)),
    ("expert_feed_forward_length", Key::Size(768)),
];
const GPT_OSS: Shape = Shape {
    architecture: "gpt-oss",
    context: 131_072,
    vocabulary: 201_088,
    rope_base: 150_000.0,
    window: 128,
    ..LLAMA
};
const GPT_OSS_KEYS: &[(&str, Key)] = &[
    ("expert_count", Key::Size(32)),
    ("expert_used_count", Key::Size(4)),
    ("expert_feed_forward_length", Key::Size(2880)),
];
const DEEPSEEK2: Shape = Shape { architecture: "deepseek2", context: 163_840, vocabulary: 102_400, ..LLAMA };
/// What is kept of a token is 512 values and 64 rotated ones.
const DEEPSEEK2_LITE_KEYS: &[(&str, Key)] = &[
    ("attention.kv_lora_rank", Key::Size(512)),
    ("attention.key_length", Key::Size(576)),
    ("attention.value_length", Key::Size(512)),
    ("attention.key_length_mla", Key::Size(192)),
    ("attention.value_length_mla", Key::Size(128)),
    ("leading_dense_block_count", Key::Size(1)),
    ("expert_count", Key::Size(64)),
    ("expert_used_count", Key::Size(6)),
    ("expert_feed_forward_length", Key::Size(1408)),
    ("expert_shared_count", Key::Size(2)),
];
const FALCON_H1: Shape = Shape {
    architecture: "falcon-h1",
    context: 131_072,
    vocabulary: 65_537,
    rope_base: 100_000_000_000.0,
    ..LLAMA
};
const FALCON_H1_KEYS: &[(&str, Key)] = &[
    ("ssm.conv_kernel", Key::Size(4)),
    ("ssm.inner_size", Key::Size(3072)),
    ("ssm.state_size", Key::Size(256)),
    ("ssm.time_step_rank", Key::Size(48)),
    ("ssm.group_count", Key::Size(1)),
];
const GRANITE4: Shape =
    Shape { architecture: "granitehybrid", context: 131_072, vocabulary: 100_352, tied: true, ..LLAMA };
/// Layers without key heads are Mamba 2.
const GRANITE4_KEYS: &[(&str, Key)] = &[
    (
        "attention.head_count_kv",
        Key::Sizes(&[
            0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 4, 0, 0, 0, 0,
        ]),
    ),
    ("ssm.conv_kernel", Key::Size(4)),
    ("ssm.inner_size", Key::Size(3072)),
    ("ssm.state_size", Key::Size(128)),
    ("ssm.time_step_rank", Key::Size(48)),
    ("ssm.group_count", Key::Size(1)),
    ("expert_count", Key::Size(64)),
    ("expert_used_count", Key::Size(6)),
    ("expert_shared_feed_forward_length", Key::Size(1024)),
];
const QWEN3_NEXT: Shape = Shape {
    architecture: "qwen3next",
    context: 262_144,
    vocabulary: 151_936,
    rope_base: 10_000_000.0,
    epsilon: 1e-6,
    rotated: 64,
    ..LLAMA
};
const QWEN3_NEXT_KEYS: &[(&str, Key)] = &[
    ("ssm.conv_kernel", Key::Size(4)),
    ("ssm.inner_size", Key::Size(4096)),
    ("ssm.state_size", Key::Size(128)),
    ("ssm.time_step_rank", Key::Size(32)),
    ("ssm.group_count", Key::Size(16)),
    ("expert_count", Key::Size(512)),
    ("expert_used_count", Key::Size(10)),
    ("expert_feed_forward_length", Key::Size(512)),
    ("expert_shared_feed_forward_length", Key::Size(512)),
];
const BERT: Shape =
    Shape { architecture: "bert", context: 512, vocabulary: 30_522, epsilon: 1e-12, tied: true, ..LLAMA };
/// How the rows of a text become its vector.
const MEAN: &[(&str, Key)] = &[("pooling_type", Key::Size(1))];
const FIRST: &[(&str, Key)] = &[("pooling_type", Key::Size(2))];

/// layers, width, feed-forward, heads, key-value heads, values per head.
const fn sized(name: &'static str, family: Shape, sizes: [u32; 6]) -> Shape {
    let [layers, width, feed_forward, heads, kv_heads, head_dim] = sizes;
    Shape { name, layers, width, feed_forward, heads, kv_heads, head_dim, ..family }
}

const fn tied(shape: Shape) -> Shape {
    Shape { tied: true, ..shape }
}

/// All shapes.
pub const SHAPES: &[Shape] = &[
    Shape { keys: FIRST, ..sized("bge-small", BERT, [12, 384, 1536, 12, 12, 32]) },
    sized(
        "deepseek-v2-lite",
        Shape { keys: DEEPSEEK2_LITE_KEYS, rotated: 64, ..DEEPSEEK2 },
        [27, 2048, 10944, 16, 1, 576],
    ),
    sized("falcon-h1-1.5b", Shape { keys: FALCON_H1_KEYS, ..FALCON_H1 }, [24, 2048, 4608, 8, 2, 128]),
    sized("gemma3-270m", GEMMA3, [18, 640, 2048, 4, 1, 256]),
    sized("gemma3-1b", GEMMA3, [26, 1152, 6912, 4, 1, 256]),
    sized("gemma3-4b", GEMMA3_LARGE, [34, 2560, 10240, 8, 4, 256]),
    sized("gemma3-12b", GEMMA3_LARGE, [48, 3840, 15360, 16, 8, 256]),
    sized("gpt-oss-20b", Shape { keys: GPT_OSS_KEYS, ..GPT_OSS }, [24, 2880, 2880, 64, 8, 64]),
    sized("gpt2-124m", GPT2, [12, 768, 3072, 12, 12, 64]),
    sized("gpt2-1.5b", GPT2, [48, 1600, 6400, 25, 25, 64]),
    sized("granite4-tiny", Shape { keys: GRANITE4_KEYS, ..GRANITE4 }, [40, 1536, 512, 12, 4, 128]),
    sized("lfm2-1.2b", Shape { keys: LFM2_KEYS, ..LFM2 }, [16, 2048, 8192, 32, 8, 64]),
    sized("llama3.1-8b", Shape { llama3_factor: 8.0, ..LLAMA3 }, [32, 4096, 14336, 32, 8, 128]),
    tied(sized("llama3.2-1b", LLAMA3, [16, 2048, 8192, 32, 8, 64])),
    tied(sized("llama3.2-3b", LLAMA3, [28, 3072, 8192, 24, 8, 128])),
    sized("mamba2-1.3b", Shape { keys: MAMBA2_KEYS, ..MAMBA2 }, [48, 2048, 0, 0, 0, 0]),
    Shape { keys: MEAN, ..sized("minilm-l6", BERT, [6, 384, 1536, 12, 12, 32]) },
    sized("mistral-7b", Shape { context: 32_768, ..LLAMA }, [32, 4096, 14336, 32, 8, 128]),
    sized("mixtral-8x7b", Shape { keys: MIXTRAL_KEYS, ..MIXTRAL }, [32, 4096, 14336, 32, 8, 128]),
    sized("phi4-mini", PHI4_MINI, [32, 3072, 8192, 24, 8, 128]),
    tied(sized("qwen2.5-0.5b", QWEN2, [24, 896, 4864, 14, 2, 64])),
    tied(sized("qwen2.5-1.5b", QWEN2, [28, 1536, 8960, 12, 2, 128])),
    sized("qwen2.5-7b", Shape { vocabulary: 152_064, ..QWEN2 }, [28, 3584, 18944, 28, 4, 128]),
    tied(sized("qwen3-0.6b", QWEN3, [28, 1024, 3072, 16, 8, 128])),
    tied(sized("qwen3-1.7b", QWEN3, [28, 2048, 6144, 16, 8, 128])),
    tied(sized("qwen3-4b", QWEN3, [36, 2560, 9728, 32, 8, 128])),
    sized("qwen3-8b", QWEN3, [36, 4096, 12288, 32, 8, 128]),
    sized("qwen3-14b", QWEN3, [40, 5120, 17408, 40, 8, 128]),
    sized("qwen3-30b-a3b", Shape { keys: QWEN3_MOE_KEYS, ..QWEN3_MOE }, [48, 2048, 6144, 32, 4, 128]),
    sized("qwen3-next-80b", Shape { keys: QWEN3_NEXT_KEYS, ..QWEN3_NEXT }, [48, 2048, 5120, 16, 2, 256]),
    sized("smollm2-135m", SMOLLM2, [30, 576, 1536, 9, 3, 64]),
    sized("smollm2-360m", SMOLLM2, [32, 960, 2560, 15, 5, 64]),
    sized("smollm2-1.7b", SMOLLM2, [24, 2048, 8192, 32, 32, 64]),
    sized("tinyllama-1.1b", LLAMA, [22, 2048, 5632, 32, 4, 64]),
];

impl Shape {
    /// The shape of that name.
    pub fn find(name: &str) -> Option<&'static Shape> {
        SHAPES.iter().find(|s| s.name == name)
    }

    /// The metadata of a model of this shape, without a tokenizer.
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.set("general.architecture", Value::Str(self.architecture.to_string()));
        metadata.set("general.name", Value::Str(format!("random weights in the shape of {}", self.name)));
        let mut set = |key: &str, value| metadata.set(format!("{}.{key}", self.architecture), value);
        for (key, size) in [
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("block_count", self.layers),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("vocab_size", self.vocabulary),
        ] {
            set(key, Value::U32(size));
        }
        let layer_norms = matches!(self.architecture, "gpt2" | "bert");
        let norm = if layer_norms { "layer_norm" } else { "layer_norm_rms" };
        set(&format!("attention.{norm}_epsilon"), Value::F32(self.epsilon));
        if self.heads > 0 && !layer_norms {
            let rotated = if self.rotated == 0 { self.head_dim } else { self.rotated };
            for (key, size) in [
                ("attention.key_length", self.head_dim),
                ("attention.value_length", self.head_dim),
                ("rope.dimension_count", rotated),
            ] {
                set(key, Value::U32(size));
            }
            if self.window > 0 {
                set("attention.sliding_window", Value::U32(self.window));
            }
            set("rope.freq_base", Value::F32(self.rope_base));
        }
        // These may say otherwise.
        for (key, value) in self.keys {
            set(key, value.value());
        }
        if self.architecture == "bert" {
            set("attention.causal", Value::Bool(false));
            // Other engines want to be told.
            metadata.set("tokenizer.ggml.token_type_count", Value::U32(2));
        }
        metadata
    }

    /// What a model of this shape computes.
    pub fn model(&self) -> Result<Model> {
        let optional = |name: &str| match self.architecture {
            "bert" => name == "token_types.weight" || name.ends_with(".bias"),
            "gpt-oss" => {
                let is_bias = name.starts_with("blk.") && name.ends_with(".bias");
                is_bias && !name.contains("exp_probs_b") || name == "output.weight"
            }
            // All files of Mamba 2 have these, and other engines want them.
            _ if name.ends_with("ssm_conv1d.bias") || name.ends_with("ssm_norm.weight") => true,
            _ => name == "output.weight" && !self.tied,
        };
        Model::plan(&self.metadata(), self.vocabulary as usize, optional)
    }

    /// The names and shapes (fastest dimension first) of all its tensors.
    pub fn tensors(&self) -> Result<Vec<(String, Vec<usize>)>> {
        let shape = |w: &Weight| match (w.experts, w.rows) {
            (1, 1) => vec![w.columns],
            (1, rows) => vec![w.columns, rows],
            (experts, rows) => vec![w.columns, rows, experts],
        };
        let weights = self.model()?.program.weights;
        let mut tensors: Vec<_> = weights.iter().map(|w| (w.name.clone(), shape(w))).collect();
        if let Some(factors) = self.rope_factors() {
            tensors.push(("rope_freqs.weight".to_string(), vec![factors.len()]));
        }
        Ok(tensors)
    }

    /// Llama 3's divisors of the rotary frequencies: 1 for short waves, the factor for waves longer
    /// than the original context of 8192, a blend between a quarter of it and the whole.
    pub fn rope_factors(&self) -> Option<Vec<f32>> {
        let (low, high, original) = (1.0, 4.0, 8192.0);
        let pairs = self.head_dim / 2;
        (self.llama3_factor > 0.0).then(|| {
            (0..pairs)
                .map(|i| {
                    let frequency = f64::from(self.rope_base).powf(-f64::from(i) / f64::from(pairs));
                    let wave = std::f64::consts::TAU / frequency;
                    let smooth: f64 = ((original / wave - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 / ((1.0 - smooth) / f64::from(self.llama3_factor) + smooth)) as f32
                })
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter counts as published, in millions: an outside check of every row of the table.
    #[test]
    fn shapes_have_the_published_sizes() {
        let published = [
            // Without the layer on top of the first row, which no vector goes through.
            ("bge-small", 33.36 - 0.148),
            ("deepseek-v2-lite", 15_706.5),
            ("falcon-h1-1.5b", 1554.8),
            ("gemma3-270m", 268.1),
            ("gemma3-1b", 999.9),
            ("gemma3-4b", 3880.1),
            ("gemma3-12b", 11765.8),
            ("gpt-oss-20b", 20_914.8),
            ("gpt2-124m", 124.4),
            ("gpt2-1.5b", 1557.6),
            ("granite4-tiny", 6939.0),
            ("lfm2-1.2b", 1170.3),
            ("llama3.1-8b", 8030.3),
            ("llama3.2-1b", 1235.8),
            ("llama3.2-3b", 3212.7),
            ("mamba2-1.3b", 1343.9),
            ("minilm-l6", 22.71 - 0.148),
            ("mistral-7b", 7241.7),
            ("mixtral-8x7b", 46_702.8),
            ("phi4-mini", 3836.0),
            ("qwen2.5-0.5b", 494.0),
            ("qwen2.5-1.5b", 1543.7),
            ("qwen2.5-7b", 7615.6),
            ("qwen3-0.6b", 596.0),
            ("qwen3-1.7b", 1720.6),
            ("qwen3-4b", 4022.5),
            ("qwen3-8b", 8190.7),
            ("qwen3-14b", 14768.3),
            ("qwen3-30b-a3b", 30_532.1),
            ("qwen3-next-80b", 79_674.4),
            ("smollm2-135m", 134.5),
            ("smollm2-360m", 361.8),
            ("smollm2-1.7b", 1711.4),
            ("tinyllama-1.1b", 1100.0),
        ];
        assert_eq!(
            published.map(|(name, _)| name).to_vec(),
            SHAPES.iter().map(|s| s.name).collect::<Vec<_>>()
        );
        for (shape, (name, millions)) in SHAPES.iter().zip(published) {
            let tensors = shape.tensors().unwrap();
            let count: usize = tensors.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
            let found = count as f64 / 1e6;
            assert!((found / millions - 1.0).abs() < 0.001, "{name}: {found} M, published {millions} M");
        }
    }
}
