//! The `.inp`/`.out` vectors that come with the vocabularies: texts, and the tokens that each model's own
//! tokenizer gives for them.

use crate::common::{data_folder, tokenizer};
use gleed_tokenizer::{DecodeOptions, Special};

fn check(name: &str) {
    let tokenizer = tokenizer(name);
    let read = |end: &str| {
        std::fs::read_to_string(data_folder().join(format!("ggml-vocab-{name}.gguf{end}"))).unwrap()
    };
    let (inputs, outputs) = (read(".inp"), read(".out"));
    let inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
    let outputs: Vec<&str> = outputs.lines().collect();
    assert!(outputs.len() > 40, "{name}: only {} vectors", outputs.len());
    for (text, line) in inputs.iter().zip(&outputs) {
        let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(text, Special::Literal), expected, "{name}: {text:?}");
        if name != "bert-bge" {
            assert_eq!(tokenizer.decode(&expected, DecodeOptions::default()), *text, "{name}: {expected:?}");
        }
    }
}

macro_rules! vectors {
    ($($test:ident: $name:literal,)*) => { $(#[test] fn $test() { check($name) })* };
}

vectors! {
    bert_bge: "bert-bge",
    command_r: "command-r",
    deepseek_coder: "deepseek-coder",
    deepseek_llm: "deepseek-llm",
    falcon: "falcon",
    gpt_2: "gpt-2",
    llama_bpe: "llama-bpe",
    llama_spm: "llama-spm",
    mpt: "mpt",
    phi_3: "phi-3",
    qwen2: "qwen2",
    qwen35: "qwen35",
    refact: "refact",
    starcoder: "starcoder",
}
