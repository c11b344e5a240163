//! The commands on models with recurrent layers: every way of use that rewinds, batches or begins in the middle.

use crate::commands::{continues, gleed, json, scratch};
use gleed_testing::golden::{root, test_data};

fn model(name: &str) -> String {
    test_data(&format!("tiny/{name}.F32.gguf")).to_str().unwrap().to_string()
}

#[test]
fn answers_are_those_of_llama_cpp() {
    for name in ["tiny-mamba2", "tiny-lfm2", "tiny-qwen35", "tiny-rwkv7"] {
        continues(name, &["--device", "cpu", "--arithmetic", "f32", "--kv", "f32"]);
    }
}

#[test]
fn validate_passes_in_every_way() {
    for name in ["tiny-mamba", "tiny-falcon-h1", "tiny-qwen35"] {
        for more in [&[][..], &["--ops"], &["--against-rows"]] {
            let report = json(&[&["validate", &model(name), "--device", "cpu", "--json"][..], more].concat());
            assert_eq!(report["passed"], true, "{name} {more:?}");
        }
    }
}

#[test]
fn bench_measures_prompts_and_several_sequences_at_a_depth() {
    let tests = ["-p", "70", "-n", "3", "-s", "1,3", "-d", "0,66", "-r", "1"];
    let report =
        json(&[&["bench", &model("tiny-nemotron_h"), "--device", "cpu", "--json"][..], &tests].concat());
    assert_eq!(report["results"].as_array().unwrap().len(), 6, "{report}");
}

#[test]
fn perplexity_and_memory_are_told() {
    let text = root().join("tests/golden/moby_120k.txt");
    let arguments = ["--context", "100", "--chunks", "2", "--device", "cpu", "--json"];
    let (model, text) = (model("tiny-granite-hybrid"), text.to_str().unwrap().to_string());
    let report = json(&[&["perplexity", &model, &text][..], &arguments].concat());
    assert!(report["perplexity"].as_f64().unwrap() > 1.0, "{report}");
    let output = gleed(&["inspect", &model]);
    let shown = String::from_utf8(output.stdout).unwrap();
    // Three layers of 64 rows of 512 channels, and three rows of 640.
    assert!(shown.contains("recurrent layers keep 416 kB of a sequence; a conversation has 6"), "{shown}");
}

#[test]
fn a_quantised_model_runs_in_integers() {
    // Key heads are listed by layer there.
    let output = scratch("lfm2-q8_0.gguf");
    let output = output.to_str().unwrap();
    json(&["quantize", &model("tiny-lfm2"), output, "--type", "q8_0", "--json"]);
    for more in [&[][..], &["--against-rows"]] {
        let report = json(&[&["validate", output, "--device", "cpu", "--json"][..], more].concat());
        assert_eq!(report["passed"], true, "{more:?}");
    }
}
