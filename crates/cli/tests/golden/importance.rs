//! Importance matrices against llama.cpp's, and what is done with them. `tests/tools/imatrix_golden.py` wrote the golden
//! numbers.

use std::path::{Path, PathBuf};

use gleed_gguf::{Format, Gguf, Importance};
use gleed_testing::golden::{root, tiny_model};
use serde_json::Value;

use crate::commands::{gleed, json, refused, scratch, stories};

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

/// The weighted error of a quantised file, in the inputs of all layers, as a share of the outputs.
fn weighted_error(path: &Path, importance: &Importance) -> f64 {
    let (original, quantised) = (Gguf::open(stories().as_ref()).unwrap(), Gguf::open(path).unwrap());
    let (mut error, mut all) = (0.0, 0.0);
    for (name, inputs) in &importance.inputs {
        let values = |file: &Gguf| file.decode(file.require_tensor(name).unwrap()).unwrap();
        let (truth, ours, means) = (values(&original), values(&quantised), inputs.means());
        for (i, (truth, ours)) in truth.iter().zip(&ours).enumerate() {
            let importance = f64::from(means[i % means.len()]);
            error += importance * (f64::from(*ours) - f64::from(*truth)).powi(2);
            all += importance * f64::from(*truth).powi(2);
        }
    }
    (error / all).sqrt()
}

#[test]
fn quantised_by_importance_the_errors_are_where_they_do_not_matter() {
    let (importance, _) = measured("stories15M", &stories(), &[]);
    let matrix = scratch("stories15M.imatrix.gguf");
    let (plain, weighted) = (scratch("plain-q4_0.gguf"), scratch("weighted-q4_0.gguf"));
    let path = |path: &PathBuf| path.to_str().unwrap().to_string();
    let (model, matrix) = (stories(), path(&matrix));
    json(&["quantize", &model, &path(&plain), "--type", "q4_0", "--json"]);
    json(&["quantize", &model, &path(&weighted), "--type", "q4_0", "--imatrix", &matrix, "--json"]);
    let (without, with) = (weighted_error(&plain, &importance), weighted_error(&weighted, &importance));
    assert!(with < 0.95 * without, "{with} with importance, {without} without");
    let file = Gguf::open(&weighted).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.str("quantize.imatrix.file").unwrap(), Some(matrix.as_str()));
    assert_eq!(metadata.u64("quantize.imatrix.entries_count").unwrap(), Some(42));
    assert_eq!(metadata.u64("quantize.imatrix.chunks_count").unwrap(), Some(3));
    let answer =
        json(&["run", &path(&weighted), "Once upon a time", "--temperature", "0", "-n", "8", "--json"]);
    assert!(answer["text"].as_str().unwrap().contains("there was"), "{}", answer["text"]);
}

/// The story model's rows of 288 are no whole blocks of 256; those of its down projections are.
#[test]
fn what_a_mix_cannot_have_is_told_once() {
    let out = scratch("stood-in.gguf");
    let output = gleed(&["quantize", &stories(), out.to_str().unwrap(), "--type", "iq1_s"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    let expected = [
        "iq1_s leaves so few bits that it needs an importance matrix",
        "24 tensors, such as blk.0.attn_q.weight: 288 columns are not whole blocks of IQ1_S, IQ4_NL is used instead",
        "6 tensors, such as blk.0.attn_output.weight: 288 columns are not whole blocks of IQ2_XXS, IQ4_NL is used",
        "6 tensors, such as blk.0.attn_v.weight: 288 columns are not whole blocks of Q2_K, Q4_0 is used instead",
    ];
    assert_eq!(warnings.len(), expected.len(), "{told}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.contains(expected), "{warning} lacks {expected}");
    }
    let file = Gguf::open(&out).unwrap();
    assert_eq!(file.require_tensor("blk.5.ffn_down.weight").unwrap().format, Format::IQ1_S);
}

#[test]
fn a_matrix_of_another_model_is_refused() {
    let (mut importance, _) = measured("tiny-qwen3moe", tiny_model("tiny-qwen3moe").to_str().unwrap(), &[]);
    let (out, matrix) = (scratch("refused-q4_0.gguf"), scratch("other.imatrix.gguf"));
    let (model, out) = (stories(), out.to_str().unwrap());
    let quantize = ["quantize", &model, out, "--type", "q4_0", "--imatrix", matrix.to_str().unwrap()];
    importance.write(&matrix).unwrap();
    refused(&quantize, "256 columns are known and the model has 288");
    importance.inputs.retain(|name, _| name.contains("exps"));
    importance.write(&matrix).unwrap();
    refused(&quantize, "knows none of the model's tensors");
    refused(&["quantize", &model, out, "--type", "q4_0", "--imatrix", &model], "is not an importance matrix");
    let missing = ["quantize", &model, out, "--type", "q4_0", "--imatrix", "/no/such.dat"];
    refused(&missing, "error: /no/such.dat: there is no such file; check the path\n");
    assert!(!Path::new(out).exists());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let (model, out, text) = (stories(), scratch("refused.imatrix.gguf"), text());
    let (out, text) = (out.to_str().unwrap(), text.to_str().unwrap());
    refused(&["imatrix", &model, "/no/such/text", "-o", out], "/no/such/text");
    refused(&["imatrix", &model, text, "-o", out, "--context", "2"], "at least 3");
    refused(&["imatrix", &model, text, "-o", "/no/such/folder/out.gguf", "--chunks", "1"], "/no/such/folder");
    assert!(!Path::new(out).exists());
}
