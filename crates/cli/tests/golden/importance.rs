//! Importance matrices against llama.cpp's, and what is done with them. `tests/tools/imatrix_golden.py` wrote the golden
//! numbers.

use std::path::PathBuf;

use gleed_gguf::Importance;
use gleed_testing::golden::{root, tiny_model};
use serde_json::Value;

use crate::commands::{json, refused, scratch, stories};

/// The matrix that we make, and llama.cpp's numbers.
fn measured(name: &str, model: &str, options: &[&str]) -> (Importance, Value) {
    let golden = std::fs::read(root().join(format!("tests/golden/imatrix/{name}.json"))).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    let (out, text) = (scratch(&format!("{name}.imatrix.gguf")), text());
    let (context, chunks) = (golden["context"].to_string(), golden["chunks"].to_string());
    let words = ["imatrix", model, text.to_str().unwrap(), "-o", out.to_str().unwrap(), "--json"];
    let windows = ["--context", &context, "--chunks", &chunks, "--device", "cpu"];
    let report = json(&[&words[..], &windows, options].concat());
    assert_eq!(report["tensors"], golden["tensors"].as_object().unwrap().len());
    (Importance::read(&out).unwrap(), golden)
}

fn text() -> PathBuf {
    root().join("tests/golden/moby_120k.txt")
}

/// All tensors are there, with as many inputs as llama.cpp counted, and no sum is further off than `limit` of it.
fn check(name: &str, model: &str, options: &[&str], limit: f64) {
    let (ours, golden) = measured(name, model, options);
    assert_eq!(u64::from(ours.chunks), golden["chunks"].as_u64().unwrap());
    assert_eq!(u64::from(ours.chunk_size), golden["context"].as_u64().unwrap());
    assert_eq!(ours.datasets, [text().display().to_string()]);
    let tensors = golden["tensors"].as_object().unwrap();
    assert_eq!(ours.inputs.len(), tensors.len());
    let mut compared = 0;
    for (tensor, theirs) in tensors {
        let ours = &ours.inputs[tensor];
        assert_eq!(serde_json::json!(ours.counts), theirs["counts"], "{name}: {tensor}");
        assert_eq!(serde_json::json!(ours.sums.len()), theirs["values"], "{name}: {tensor}");
        let every = golden["every"].as_u64().unwrap() as usize;
        let largest = ours.sums.iter().copied().fold(0.0, f32::max);
        for (ours, theirs) in ours.sums.iter().step_by(every).zip(theirs["sums"].as_array().unwrap()) {
            let (ours, theirs) = (f64::from(*ours), theirs.as_f64().unwrap());
            let off = (ours - theirs).abs() / (theirs.abs() + 1e-3 * f64::from(largest));
            assert!(off <= limit, "{name}: {tensor}: {ours} is not {theirs}");
            compared += 1;
        }
    }
    assert!(compared > 100);
}

#[test]
fn matrices_of_experts_are_llama_cpps() {
    check("tiny-qwen3moe", tiny_model("tiny-qwen3moe").to_str().unwrap(), &["--arithmetic", "f32"], 2e-3);
}

#[test]
fn matrices_of_heads_are_llama_cpps() {
    check("tiny-deepseek2", tiny_model("tiny-deepseek2").to_str().unwrap(), &["--arithmetic", "f32"], 2e-3);
}

/// Both compute with activations of eight bits.
#[test]
fn matrices_of_a_real_model_are_llama_cpps() {
    check("stories15M", &stories(), &[], 0.02);
}

#[test]
fn the_output_is_measured_where_it_is_asked_for() {
    let (out, text, model) = (scratch("output.imatrix.gguf"), text(), stories());
    let words = ["imatrix", &model, text.to_str().unwrap(), "-o", out.to_str().unwrap(), "--json"];
    let report = json(&[&words[..], &["--chunks", "1", "-c", "32", "--process-output"]].concat());
    assert_eq!(report["tensors"], 6 * 7 + 1);
    // The embeddings serve as the output.
    let embeddings = &Importance::read(&out).unwrap().inputs["token_embd.weight"];
    assert_eq!((embeddings.sums.len(), &embeddings.counts[..]), (288, &[32.0][..]));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let (model, out, text) = (stories(), scratch("refused.imatrix.gguf"), text());
    let (out, text) = (out.to_str().unwrap(), text.to_str().unwrap());
    refused(&["imatrix", &model, "/no/such/text", "-o", out], "/no/such/text");
    refused(&["imatrix", &model, text, "-o", out, "--context", "2"], "at least 3");
    refused(&["imatrix", &model, text, "-o", "/no/such/folder/out.gguf", "--chunks", "1"], "/no/such/folder");
    assert!(!std::path::Path::new(out).exists());
}
