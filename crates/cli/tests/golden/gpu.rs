//! The commands on a GPU: whichever comes first, which is Mesa's software one where there is no other.

use crate::commands::{continues, gleed, json, refused};

#[test]
fn a_gpu_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--device", "0"]);
    continues("tiny-qwen3", &["--device", "0", "--kv", "f32"]);
}

#[test]
fn a_gpu_tells_the_same_story() {
    let arguments = ["run", "Once upon a time", "--temperature", "0", "-n", "24"];
    let story = |options: &[&str]| {
        let output = gleed(&[&arguments[..], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(story(&["--device", "0"]), story(&["--device", "cpu", "--arithmetic", "f32"]));
}

#[test]
fn devices_are_listed() {
    let devices = json(&["devices", "--json"]);
    let first = &devices["devices"][0];
    assert!(first["name"].as_str().is_some_and(|name| !name.is_empty()), "{devices}");
    assert!(first["largest_binding_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{devices}");
}

#[test]
fn wishes_that_no_gpu_fulfils_are_refused() {
    refused(&["run", "Hi", "--device", "gpu", "--arithmetic", "q8"], "leave out --arithmetic q8");
    refused(&["run", "Hi", "--device", "cpu", "--matrix-units"], "--matrix-units is for GPUs");
    refused(&["run", "Hi", "--device", "a card from 2050"], "a card from 2050");
}
