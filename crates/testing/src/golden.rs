//! The golden data in `tests/golden`, the models it was taken on, and how close to it is close enough.

use std::io::Write;
use std::path::{Path, PathBuf};

/// What the order of f32 additions may cost, of the spread of the logits or of a vector.
pub const ADDITIONS: f32 = 3e-5;
/// llama.cpp looks GELU up in a table of f16 values, which costs it two digits.
pub const GELU_TABLE: f32 = 3e-3;
/// The same twice in each of many layers. With its table imitated, the 4e-3 of Gemma 4 become 9e-4.
pub const GELU_TABLE_OFTEN: f32 = 6e-3;
/// It also has the angles of rotations as products of f32, which tells after thousands of positions.
pub const FAR: f32 = 1e-4;

/// What llama.cpp did with one prompt. Embedding models only have the prompt.
#[derive(Debug, serde::Deserialize)]
pub struct Golden {
    /// The text.
    pub prompt: String,
    /// Its tokens.
    pub prompt_ids: Vec<u32>,
    /// The most likely tokens, one after the other.
    #[serde(default)]
    pub gen_ids: Vec<u32>,
    /// Their log-probabilities.
    #[serde(default)]
    pub gen_logprobs: Vec<f32>,
    /// The gap between its best and second logit at each of them.
    #[serde(default)]
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

/// A tiny random model.
pub fn tiny_model(name: &str) -> PathBuf {
    test_data(&format!("tiny/{name}.F32.gguf"))
}

/// All prompts of a model; `name` is relative to `tests/golden`.
pub fn golden(name: &str) -> Vec<Golden> {
    let text = std::fs::read_to_string(root().join(format!("tests/golden/{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The numbers of a file in `tests/golden`.
pub fn floats(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(root().join("tests/golden").join(name)).unwrap();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The names of the tiny models whose golden data has such files.
pub fn tiny_models_with(suffix: &str) -> Vec<String> {
    let files = std::fs::read_dir(root().join("tests/golden/tiny")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(suffix)?.to_string())).collect();
    names.sort();
    names
}

/// Holds logits, or a vector, that a device computed of a tiny model's prompt against the true ones, by their spread,
/// which it gives back. Where `GLEED_MEASURED` names a file, what was measured is added to it.
pub fn hold(device: &str, name: &str, prompt: usize, ours: &[f32], truth: &[f32], limit: f32) -> f32 {
    let spread = spread(truth);
    let difference = worst(ours, truth) / spread;
    if let Some(path) = std::env::var_os("GLEED_MEASURED") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        let line = serde_json::json!({ "model": name, "device": device, "difference": difference });
        // At once, so that lines of other tests do not come between.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    assert!(difference < limit, "{device}: {name} prompt {prompt}: {difference} of the spread apart");
    spread
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
