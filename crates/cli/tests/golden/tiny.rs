//! Tiny random models of every family on the fast path, against llama.cpp.

use std::path::Path;

use crate::data::{argmax, cpu, golden, golden_logits, logits, spread, test_data, worst};
use gleed_model::{Arithmetic, Executor, KvType};

/// On the CPU.
fn check(name: &str) {
    check_on(name, |path, positions| Box::new(cpu(path, Arithmetic::F32, KvType::F16, positions)));
}

/// On an executor of a file for so many positions.
fn check_on(name: &str, executor: impl Fn(&Path, usize) -> Box<dyn Executor>) {
    let path = test_data(&format!("tiny/{name}.F32.gguf"));
    for (index, golden) in golden(&format!("tiny/{name}")).iter().enumerate() {
        let tokens: Vec<u32> = golden.prompt_ids.iter().chain(&golden.gen_ids).copied().collect();
        let first = golden.prompt_ids.len() - 1;
        let mut executor = executor(&path, tokens.len());
        let ours = logits(&mut *executor, &tokens, first);
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

#[test]
#[cfg(feature = "gpu")]
fn every_family_on_a_gpu() {
    for name in ["tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gpt2"] {
        check_on(name, |path, positions| Box::new(crate::data::gpu(path, KvType::F16, positions)));
    }
}
