//! Tiny random models of every family on the fast path, against llama.cpp.

use crate::data::{argmax, cpu, golden, golden_logits, logits, spread, test_data, worst};
use gleed_model::{Arithmetic, KvType};

fn check(name: &str) {
    let path = test_data(&format!("tiny/{name}.F32.gguf"));
    for (index, golden) in golden(&format!("tiny/{name}")).iter().enumerate() {
        let tokens: Vec<u32> = golden.prompt_ids.iter().chain(&golden.gen_ids).copied().collect();
        let first = golden.prompt_ids.len() - 1;
        let mut executor = cpu(&path, Arithmetic::F32, KvType::F16, tokens.len());
        let ours = logits(&mut executor, &tokens, first);
        let truth = golden_logits(&format!("tiny/{name}"), index);
        let difference = worst(&ours[0], &truth) / spread(&truth);
        assert!(difference < 2e-3, "{name} prompt {index}: logits differ by {difference} of their spread");
        for (i, (token, margin)) in golden.gen_ids.iter().zip(&golden.margins).enumerate() {
            // Below this margin llama.cpp's own f16 rounding decides.
            if *margin > 4e-3 * spread(&truth) {
                assert_eq!(argmax(&ours[i]), *token, "{name} prompt {index}, token {i}");
            }
        }
    }
}

#[test]
fn llama() {
    check("tiny-llama");
}

#[test]
fn llama3() {
    check("tiny-llama3");
}

#[test]
fn qwen2() {
    check("tiny-qwen2");
}

#[test]
fn qwen3() {
    check("tiny-qwen3");
}

#[test]
fn gpt2() {
    check("tiny-gpt2");
}
