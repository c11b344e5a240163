//! The golden data in `tests/golden`, the models it was taken on, and the path from tokens to logits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gleed_cpu::Cpu;
use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Row};

/// What llama.cpp did with one prompt.
#[derive(serde::Deserialize)]
pub struct Golden {
    pub prompt: String,
    pub prompt_ids: Vec<u32>,
    pub gen_ids: Vec<u32>,
    pub gen_logprobs: Vec<f32>,
    /// The gap between its best and second logit at each generated token.
    pub margins: Vec<f32>,
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file that `./test` fetched or made.
pub fn test_data(relative: &str) -> PathBuf {
    let folder =
        std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from);
    let path = folder.join(relative);
    assert!(path.exists(), "{} is missing: run ./test, which makes it", path.display());
    path
}

/// All prompts of a model; `name` is relative to `tests/golden`.
pub fn golden(name: &str) -> Vec<Golden> {
    let text = std::fs::read_to_string(root().join(format!("tests/golden/{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The logits after the last token of a prompt.
pub fn golden_logits(name: &str, prompt: usize) -> Vec<f32> {
    let path = root().join(format!("tests/golden/{name}.p{prompt}.logits.f32"));
    std::fs::read(path).unwrap().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A model on the CPU.
pub fn cpu(path: &Path, arithmetic: Arithmetic, kv: KvType, positions: usize) -> Cpu {
    let file = Arc::new(Gguf::open(path).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    let options = gleed_cpu::Options {
        arithmetic,
        kv,
        threads: 0,
        isa: None,
        max_rows: positions,
        pages: positions.div_ceil(PAGE),
        memory: None,
    };
    Cpu::new(file, fuse(&model.program, Rules::ALL), options).unwrap()
}

/// A model on a GPU: whichever is best, be it software.
#[cfg(feature = "gpu")]
pub fn gpu(path: &Path, kv: KvType, positions: usize) -> gleed_gpu::GpuExecutor {
    let file = Gguf::open(path).unwrap();
    let model = Model::load(&file).unwrap();
    let gpu = gleed_gpu::Gpu::open(gleed_gpu::Selection::BestOrSoftware).unwrap();
    let options =
        gleed_gpu::Options { kv, max_rows: positions, pages: positions.div_ceil(PAGE), ..Default::default() };
    gleed_gpu::GpuExecutor::new(gpu, &file, fuse(&model.program, Rules::ALL), options).unwrap()
}

/// The logits after each of the tokens from `first` on.
pub fn logits(executor: &mut dyn Executor, tokens: &[u32], first: usize) -> Vec<Vec<f32>> {
    let mut batch = Batch::default();
    let pages: Vec<u32> = (0..executor.page_count() as u32).collect();
    let table = batch.add_table(&pages);
    for (position, &token) in tokens.iter().enumerate() {
        batch.push(Row { table, position: position as u32, token, wants_logits: position >= first });
    }
    executor.step(&batch, &mut ()).unwrap();
    (0..tokens.len() - first).map(|i| executor.logits(i).to_vec()).collect()
}

/// The first of the largest.
pub fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap() as u32
}

/// The standard deviation.
pub fn spread(values: &[f32]) -> f32 {
    let mean = values.iter().sum::<f32>() / values.len() as f32;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt()
}

/// The largest |a - b|.
pub fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
