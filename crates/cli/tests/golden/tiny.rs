//! Tiny random models of every family on the fast path, against llama.cpp.

use std::path::Path;

use crate::data::{cpu, logits};
use gleed_model::{Arithmetic, Executor, KvType};
use gleed_testing::golden::{
    ADDITIONS, FAR, GELU_TABLE, GELU_TABLE_OFTEN, argmax, floats, golden, hold, tiny_model,
};

/// On the CPU.
fn check(name: &str, limit: f32) {
    let executor = |path: &Path, positions| -> Box<dyn Executor> {
        Box::new(cpu(path, Arithmetic::F32, KvType::F32, positions))
    };
    check_on("CPU", name, limit, executor);
}

/// On a device's executor, made of a file and a number of positions.
fn check_on(device: &str, name: &str, limit: f32, executor: impl Fn(&Path, usize) -> Box<dyn Executor>) {
    check_golden(device, &format!("tiny/{name}"), limit, |positions| executor(&tiny_model(name), positions));
}

/// Holds an executor, made for a number of positions, against golden data.
pub fn check_golden(device: &str, name: &str, limit: f32, executor: impl FnOnce(usize) -> Box<dyn Executor>) {
    let all = golden(name);
    let positions = all.iter().map(|golden| golden.prompt_ids.len() + golden.gen_ids.len()).max();
    // Each prompt starts at the first position again.
    let mut executor = executor(positions.unwrap());
    let model = name.split_once('/').map_or(name, |(_, model)| model);
    for (index, golden) in all.iter().enumerate() {
        let tokens: Vec<u32> = golden.prompt_ids.iter().chain(&golden.gen_ids).copied().collect();
        let ours = logits(&mut *executor, &tokens, golden.prompt_ids.len() - 1);
        let truth = floats(&format!("{name}.p{index}.logits.f32"));
        let spread = hold(device, model, index, &ours[0], &truth, limit);
        for (i, (token, margin)) in golden.gen_ids.iter().zip(&golden.margins).enumerate() {
            // Below this margin either token is right.
            if *margin > 2.0 * limit * spread {
                assert_eq!(argmax(&ours[i]), *token, "{name} prompt {index}, token {i}");
            }
        }
    }
}

macro_rules! families {
    ($($test:ident: $name:literal, $limit:ident;)*) => {
        $(
            #[test]
            fn $test() {
                check($name, $limit);
            }
        )*

        #[cfg(feature = "gpu")]
        const FAMILIES: &[(&str, f32)] = &[$(($name, $limit)),*];
    };
}

families! {
    afmoe: "tiny-afmoe", ADDITIONS;
    apertus: "tiny-apertus", ADDITIONS;
    arcee: "tiny-arcee", ADDITIONS;
    bailingmoe2: "tiny-bailingmoe2", ADDITIONS;
    cohere2: "tiny-cohere2", ADDITIONS;
    command_r: "tiny-command-r", ADDITIONS;
    deepseek2: "tiny-deepseek2", ADDITIONS;
    deepseek2_lite: "tiny-deepseek2-lite", ADDITIONS;
    deepseek2_old: "tiny-deepseek2-old", ADDITIONS;
    deepseek32: "tiny-deepseek32-heads", ADDITIONS;
    dots1: "tiny-dots1", ADDITIONS;
    ernie4_5: "tiny-ernie4_5", ADDITIONS;
    ernie4_5_moe: "tiny-ernie4_5-moe", ADDITIONS;
    exaone_moe: "tiny-exaone-moe", ADDITIONS;
    exaone4: "tiny-exaone4", ADDITIONS;
    exaone4_hybrid: "tiny-exaone4-hybrid", ADDITIONS;
    falcon: "tiny-falcon", GELU_TABLE;
    falcon_h1: "tiny-falcon-h1", ADDITIONS;
    gemma: "tiny-gemma", GELU_TABLE;
    gemma2: "tiny-gemma2", GELU_TABLE;
    gemma3: "tiny-gemma3", GELU_TABLE;
    gemma3n: "tiny-gemma3n", GELU_TABLE_OFTEN;
    gemma4: "tiny-gemma4", GELU_TABLE_OFTEN;
    gemma4_moe: "tiny-gemma4-moe", GELU_TABLE;
    glm_dsa: "tiny-glm-dsa-heads", ADDITIONS;
    glm4: "tiny-glm4", ADDITIONS;
    glm4moe: "tiny-glm4moe", ADDITIONS;
    gpt_oss: "tiny-gpt-oss", ADDITIONS;
    gpt2: "tiny-gpt2", GELU_TABLE;
    gptneox: "tiny-gptneox", GELU_TABLE;
    granite: "tiny-granite", ADDITIONS;
    granite_hybrid: "tiny-granite-hybrid", ADDITIONS;
    granitemoe: "tiny-granitemoe", ADDITIONS;
    hunyuan_dense: "tiny-hunyuan-dense", ADDITIONS;
    hunyuan_moe: "tiny-hunyuan-moe", ADDITIONS;
    hy_v3: "tiny-hy_v3", ADDITIONS;
    internlm2: "tiny-internlm2", ADDITIONS;
    jamba: "tiny-jamba", ADDITIONS;
    kimi_linear: "tiny-kimi-linear", ADDITIONS;
    laguna: "tiny-laguna", ADDITIONS;
    lfm2: "tiny-lfm2", ADDITIONS;
    lfm2moe: "tiny-lfm2moe", ADDITIONS;
    llama: "tiny-llama", ADDITIONS;
    llama3: "tiny-llama3", ADDITIONS;
    llama4: "tiny-llama4", ADDITIONS;
    llama4_over_two_chunks: "tiny-llama4-long", FAR;
    mamba: "tiny-mamba", ADDITIONS;
    mamba2: "tiny-mamba2", ADDITIONS;
    mimo2: "tiny-mimo2", ADDITIONS;
    minicpm: "tiny-minicpm", ADDITIONS;
    minicpm4_long: "tiny-minicpm4-long", ADDITIONS;
    minimax_m2: "tiny-minimax-m2", ADDITIONS;
    mistral3: "tiny-mistral3", ADDITIONS;
    mistral3_beyond_its_first_context: "tiny-mistral3-long", ADDITIONS;
    mistral4: "tiny-mistral4", ADDITIONS;
    mixtral: "tiny-mixtral", ADDITIONS;
    nemotron: "tiny-nemotron", ADDITIONS;
    nemotron_h: "tiny-nemotron_h", ADDITIONS;
    nemotron_h_moe: "tiny-nemotron_h_moe", ADDITIONS;
    nemotron_h_moe_with_latent_experts: "tiny-nemotron_h_moe-latent", ADDITIONS;
    olmo2: "tiny-olmo2", ADDITIONS;
    olmo3: "tiny-olmo3", ADDITIONS;
    olmoe: "tiny-olmoe", ADDITIONS;
    phi2: "tiny-phi2", GELU_TABLE;
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
    rwkv7: "tiny-rwkv7", ADDITIONS;
    seed_oss: "tiny-seed_oss", ADDITIONS;
    smollm3: "tiny-smollm3", ADDITIONS;
    stablelm: "tiny-stablelm", ADDITIONS;
    stablelm_parallel: "tiny-stablelm-parallel", ADDITIONS;
    starcoder2: "tiny-starcoder2", GELU_TABLE;
    step35: "tiny-step35", ADDITIONS;
}

/// Each family whose ops the others have not; all of them where `GLEED_ALL_ON_GPU` is set, for a GPU that is not
/// software.
#[test]
#[cfg(feature = "gpu")]
fn families_on_a_gpu() {
    const SOME: &[&str] = &[
        "tiny-llama3",
        "tiny-qwen2",
        "tiny-gpt2",
        "tiny-gemma2",
        "tiny-gemma3",
        "tiny-gemma3n",
        "tiny-gemma4",
        "tiny-granite",
        "tiny-nemotron",
        "tiny-olmo3",
        "tiny-phi4-mini",
        "tiny-phimoe",
        "tiny-llama4",
        "tiny-gpt-oss",
        "tiny-glm4moe",
        "tiny-qwen2moe",
        "tiny-lfm2",
        "tiny-mamba",
        "tiny-nemotron_h",
        "tiny-qwen35",
        "tiny-deepseek2",
        "tiny-stablelm-parallel",
        "tiny-apertus",
        "tiny-laguna",
        "tiny-step35",
        "tiny-kimi-linear",
        "tiny-rwkv7",
        "tiny-deepseek32-heads",
    ];
    assert!(SOME.iter().all(|name| FAMILIES.iter().any(|(known, _)| known == name)));
    let all = std::env::var_os("GLEED_ALL_ON_GPU").is_some();
    for (name, limit) in FAMILIES.iter().filter(|(name, _)| all || SOME.contains(name)) {
        let executor = |path: &Path, positions| -> Box<dyn Executor> {
            Box::new(crate::data::gpu(path, KvType::F32, positions))
        };
        check_on(&crate::data::gpu_name(), name, *limit, executor);
    }
}
