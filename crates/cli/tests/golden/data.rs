//! Models on the CPU and on a GPU, and the path from tokens to logits.

use std::path::Path;
use std::sync::Arc;

use gleed_cpu::Cpu;
use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Row};

/// A model on the CPU.
pub fn cpu(path: &Path, arithmetic: Arithmetic, kv: KvType, positions: usize) -> Cpu {
    let file = Arc::new(Gguf::open(path).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    cpu_of(file, &model, arithmetic, kv, positions)
}

/// A model of a file on the CPU.
pub fn cpu_of(file: Arc<Gguf>, model: &Model, arithmetic: Arithmetic, kv: KvType, positions: usize) -> Cpu {
    let options = gleed_cpu::Options {
        arithmetic,
        kv,
        threads: 0,
        isa: None,
        max_rows: positions,
        pages: positions.div_ceil(PAGE),
        window_sequences: None,
        memory: None,
    };
    Cpu::new(file, fuse(&model.program, Rules::ALL), options).unwrap()
}

/// The GPU of all tests, whichever is best, be it software: what one test has had compiled, others need not.
#[cfg(feature = "gpu")]
pub fn device() -> gleed_gpu::Gpu {
    static GPU: std::sync::OnceLock<gleed_gpu::Gpu> = std::sync::OnceLock::new();
    GPU.get_or_init(|| gleed_gpu::Gpu::open(gleed_gpu::Selection::BestOrSoftware).unwrap()).clone()
}

/// A model on that GPU.
#[cfg(feature = "gpu")]
pub fn gpu(path: &Path, kv: KvType, positions: usize) -> gleed_gpu::GpuExecutor {
    let file = Gguf::open(path).unwrap();
    gpu_of(&file, &Model::load(&file).unwrap(), kv, positions)
}

/// A model of a file on that GPU.
#[cfg(feature = "gpu")]
pub fn gpu_of(file: &Gguf, model: &Model, kv: KvType, positions: usize) -> gleed_gpu::GpuExecutor {
    let options =
        gleed_gpu::Options { kv, max_rows: positions, pages: positions.div_ceil(PAGE), ..Default::default() };
    gleed_gpu::GpuExecutor::new(device(), file, fuse(&model.program, Rules::ALL), options).unwrap()
}

/// What that GPU is called.
#[cfg(feature = "gpu")]
pub fn gpu_name() -> String {
    device().info.name.clone()
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
