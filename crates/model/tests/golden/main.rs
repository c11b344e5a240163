//! The reference executor against llama.cpp and Hugging Face transformers, on tiny random models.

mod embeddings;
mod lora;
mod tiny;
mod transformers;
mod transformers_encoders;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::Model;

/// A file that was made with transformers.
fn data(folder: &str, name: &str, kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/transformers/{folder}/{name}.{kind}"))
}

/// A small model, all of whose tensors are used, and what was noted of it.
fn open<T: serde::de::DeserializeOwned>(folder: &str, name: &str) -> (Arc<Gguf>, Model, T) {
    let file = Arc::new(Gguf::open(&data(folder, name, "gguf")).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    let text = std::fs::read_to_string(data(folder, name, "json")).unwrap();
    (file, model, serde_json::from_str(&text).unwrap())
}
