//! Tiny random models of every family on the fast path, against llama.cpp.

use std::path::Path;

use crate::data::{argmax, cpu, golden, golden_logits, logits, spread, test_data, worst};
use gleed_model::{Arithmetic, Executor, KvType};

/// What the order of f32 additions may cost, of the logits' spread.
const ADDITIONS: f32 = 3e-5;
/// llama.cpp looks GELU up in a table of f16 values, which costs it two digits.
const GELU_TABLE: f32 = 3e-3;
/// The same twice in each of many layers. With its table imitated, the 4e-3 of Gemma 4 become 9e-4.
const GELU_TABLE_OFTEN: f32 = 6e-3;
/// It also has the angles of rotations as products of f32, which tells after thousands of positions.
const FAR: f32 = 1e-4;

/// On the CPU.
fn check(name: &str, limit: f32) {
    check_on(name, limit, |path, positions| Box::new(cpu(path, Arithmetic::F32, KvType::F32, positions)));
}

/// On an executor of a file for so many positions.
fn check_on(name: &str, limit: f32, executor: impl Fn(&Path, usize) -> Box<dyn Executor>) {
    let path = test_data(&format!("tiny/{name}.F32.gguf"));
    for (index, golden) in golden(&format!("tiny/{name}")).iter().enumerate() {
        let tokens: Vec<u32> = golden.prompt_ids.iter().chain(&golden.gen_ids).copied().collect();
        let first = golden.prompt_ids.len() - 1;
        let mut executor = executor(&path, tokens.len());
        let ours = logits(&mut *executor, &tokens, first);
        let truth = golden_logits(&format!("tiny/{name}"), index);
        let difference = worst(&ours[0], &truth) / spread(&truth);
        assert!(difference < limit, "{name} prompt {index}: logits differ by {difference} of their spread");
        for (i, (token, margin)) in golden.gen_ids.iter().zip(&golden.margins).enumerate() {
            // Below this margin either token is right.
            if *margin > 2.0 * limit * spread(&truth) {
                assert_eq!(argmax(&ours[i]), *token, "{name} prompt {index}, token {i}");
            }
        }
    }
}

macro_rules! families {
    ($($test:ident: $name:literal, $limit:ident;)*) => {$(
        #[test]
        fn $test() {
            check($name, $limit);
        }
    )*};
}

families! {
    deepseek2: "tiny-deepseek2", ADDITIONS;
    deepseek2_lite: "tiny-deepseek2-lite", ADDITIONS;
    deepseek2_old: "tiny-deepseek2-old", ADDITIONS;
    falcon_h1: "tiny-falcon-h1", ADDITIONS;
    gemma: "tiny-gemma", GELU_TABLE;
    gemma2: "tiny-gemma2", GELU_TABLE;
    gemma3: "tiny-gemma3", GELU_TABLE;
    gemma4: "tiny-gemma4", GELU_TABLE_OFTEN;
    gemma4_moe: "tiny-gemma4-moe", GELU_TABLE;
    glm4: "tiny-glm4", ADDITIONS;
    glm4moe: "tiny-glm4moe", ADDITIONS;
    gpt_oss: "tiny-gpt-oss", ADDITIONS;
    gpt2: "tiny-gpt2", GELU_TABLE;
    granite: "tiny-granite", ADDITIONS;
    granite_hybrid: "tiny-granite-hybrid", ADDITIONS;
    granitemoe: "tiny-granitemoe", ADDITIONS;
    lfm2: "tiny-lfm2", ADDITIONS;
    lfm2moe: "tiny-lfm2moe", ADDITIONS;
    llama: "tiny-llama", ADDITIONS;
    llama3: "tiny-llama3", ADDITIONS;
    llama4: "tiny-llama4", ADDITIONS;
    llama4_over_two_chunks: "tiny-llama4-long", FAR;
    mamba: "tiny-mamba", ADDITIONS;
    mamba2: "tiny-mamba2", ADDITIONS;
    mistral3: "tiny-mistral3", ADDITIONS;
    mistral3_beyond_its_first_context: "tiny-mistral3-long", ADDITIONS;
    mixtral: "tiny-mixtral", ADDITIONS;
    nemotron: "tiny-nemotron", ADDITIONS;
    nemotron_h: "tiny-nemotron_h", ADDITIONS;
    nemotron_h_moe: "tiny-nemotron_h_moe", ADDITIONS;
    nemotron_h_moe_with_latent_experts: "tiny-nemotron_h_moe-latent", ADDITIONS;
    olmo2: "tiny-olmo2", ADDITIONS;
    olmo3: "tiny-olmo3", ADDITIONS;
    olmoe: "tiny-olmoe", ADDITIONS;
    phi3: "tiny-phi3", ADDITIONS;
    phi4_mini: "tiny-phi4-mini", ADDITIONS;
    phi4_mini_long: "tiny-phi4-mini-long", ADDITIONS;
    phimoe: "tiny-phimoe", ADDITIONS;
    qwen2: "tiny-qwen2", ADDITIONS;
    qwen2moe: "tiny-qwen2moe", ADDITIONS;
    qwen2_vl: "tiny-qwen2vl", ADDITIONS;
    qwen3: "tiny-qwen3", ADDITIONS;
    qwen35: "tiny-qwen35", ADDITIONS;
    qwen35moe: "tiny-qwen35moe", ADDITIONS;
    qwen3moe: "tiny-qwen3moe", ADDITIONS;
    qwen3next: "tiny-qwen3next", ADDITIONS;
    qwen3_vl: "tiny-qwen3vl", ADDITIONS;
    qwen3vlmoe: "tiny-qwen3vlmoe", ADDITIONS;
    smollm3: "tiny-smollm3", ADDITIONS;
}

/// Each family whose ops the others have not.
#[test]
#[cfg(feature = "gpu")]
fn families_on_a_gpu() {
    for (name, limit) in [
        ("tiny-llama3", ADDITIONS),
        ("tiny-qwen2", ADDITIONS),
        ("tiny-gpt2", GELU_TABLE),
        ("tiny-gemma2", GELU_TABLE),
        ("tiny-gemma3", GELU_TABLE),
        ("tiny-gemma4", GELU_TABLE_OFTEN),
        ("tiny-granite", ADDITIONS),
        ("tiny-nemotron", ADDITIONS),
        ("tiny-olmo3", ADDITIONS),
        ("tiny-phi4-mini", ADDITIONS),
        ("tiny-phimoe", ADDITIONS),
        ("tiny-llama4", ADDITIONS),
        ("tiny-gpt-oss", ADDITIONS),
        ("tiny-glm4moe", ADDITIONS),
        ("tiny-qwen2moe", ADDITIONS),
        ("tiny-lfm2", ADDITIONS),
        ("tiny-mamba", ADDITIONS),
        ("tiny-nemotron_h", ADDITIONS),
        ("tiny-qwen35", ADDITIONS),
        ("tiny-deepseek2", ADDITIONS),
    ] {
        check_on(name, limit, |path, positions| Box::new(crate::data::gpu(path, KvType::F32, positions)));
    }
}
