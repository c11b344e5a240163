//! `gleed rm`: what it removes, and what it must not.

use std::fs;

use serde_json::{Value, json};

use crate::machine::Machine;

fn machine(files: &[&str]) -> Machine {
    let machine = Machine::new("http://127.0.0.1:9");
    for file in files {
        let path = machine.cache().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; 1500]).unwrap();
    }
    machine
}

const SMOLLM: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

#[test]
fn models_are_removed_and_what_that_frees_is_said() {
    let machine = machine(&[
        SMOLLM,
        "SmolLM2-135M-Instruct.Q4_1.gguf.partial",
        "hub/o/r/main/m-Q8_0-00001-of-00002.gguf",
        "hub/o/r/main/m-Q8_0-00002-of-00002.gguf",
        "hub/o/r/main/m-Q4_0.gguf",
        "history",
    ]);
    let said = machine.run(&["rm", "SMOLLM2-135m", "hf:o/r:Q8_0"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    assert_eq!(said.stderr, "removed SMOLLM2-135m (3.0 kB)\nremoved hf:o/r:Q8_0 (3.0 kB)\n");
    assert_eq!(machine.cached(), ["history", "hub/o/r/main/m-Q4_0.gguf"]);

    let said = machine.run(&["rm", "--json", "hf:o/r/m-Q4_0.gguf", "hf:o/r"]);
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(printed, json!({ "models": [{ "name": "hf:o/r/m-Q4_0.gguf", "bytes": 1500 }] }));
    assert_eq!(machine.cached(), ["history"]);
}

#[test]
fn a_slip_in_one_name_removes_nothing() {
    let machine = machine(&[SMOLLM, "hub/o/r/main/m.gguf", "mine.gguf"]);
    let path = machine.cache().join("mine.gguf");
    let before = machine.cached();
    for (name, words) in [
        (
            "smollm",
            "no file or model named smollm: `gleed list` shows the known ones; did you mean smollm2-135m?",
        ),
        ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b is not here: `gleed list` shows what is"),
        ("hf:o/r/other.gguf", "hf:o/r/other.gguf is not here"),
        ("hf:o/r:Q8_0", "hf:o/r:Q8_0 is not here"),
        ("hf:o/../m.gguf", "has an empty or odd step"),
        ("stories15M", "stories15M is built in and cannot be removed"),
        (path.to_str().unwrap(), "is not in the cache: only what was pulled can be removed"),
    ] {
        machine.run(&["rm", "smollm2-135m", name]).assert_error(words);
        assert_eq!(machine.cached(), before);
    }
}

#[test]
fn a_file_called_like_a_model_is_not_meant() {
    let machine = machine(&[SMOLLM]);
    let namesake = machine.cache().parent().unwrap().join("smollm2-135m");
    fs::write(&namesake, b"mine").unwrap();
    assert_eq!(machine.run(&["rm", "smollm2-135m"]).code, Some(0));
    assert!(namesake.exists() && machine.cached().is_empty());
}
