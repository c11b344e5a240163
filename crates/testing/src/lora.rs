//! Tiny models with tiny adapters, for which `tests/golden/lora` has llama.cpp's answers.

use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::Model;
use gleed_model::adapters::{Adapter, join};

use crate::golden::{test_data, tiny_model};

/// A model and how much of which adapters it takes.
#[derive(Debug, Clone, Copy)]
pub struct LoraCase {
    /// What its golden data is called.
    pub name: &'static str,
    /// A tiny model.
    pub model: &'static str,
    /// The adapters, in order.
    pub adapters: &'static [(&'static str, f32)],
}

/// All cases: few matrices, two adapters at once, biases, embeddings and the head, experts.
pub const LORA: [LoraCase; 5] = [
    LoraCase { name: "llama-attention", model: "tiny-llama3", adapters: &[("llama-attention", 1.0)] },
    LoraCase {
        name: "llama-both",
        model: "tiny-llama3",
        adapters: &[("llama-all", 0.7), ("llama-attention", -1.25)],
    },
    LoraCase { name: "qwen-biased", model: "tiny-qwen2", adapters: &[("qwen-biased", 1.0)] },
    LoraCase { name: "phi-embeddings", model: "tiny-phi3", adapters: &[("phi-embeddings", 0.5)] },
    LoraCase { name: "mixtral-experts", model: "tiny-mixtral", adapters: &[("mixtral-experts", 1.0)] },
];

impl LoraCase {
    /// The adapters' files.
    pub fn files(&self) -> impl Iterator<Item = (std::path::PathBuf, f32)> {
        self.adapters.iter().map(|(name, scale)| (test_data(&format!("tiny/lora-{name}.gguf")), *scale))
    }

    /// The model with its adapters, and the file that both are in.
    pub fn open(&self) -> (Arc<Gguf>, Model) {
        let file = Gguf::open(&tiny_model(self.model)).unwrap();
        let model = Model::load(&file).unwrap();
        let read = |(path, scale): (std::path::PathBuf, f32)| {
            Adapter::read(Gguf::open(&path).unwrap(), scale, &model).unwrap()
        };
        let adapters: Vec<Adapter> = self.files().map(read).collect();
        (Arc::new(join(file, &adapters).unwrap()), model.adapted(&adapters).unwrap())
    }
}
