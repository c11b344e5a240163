//! The commands on a GPU: whichever comes first, which is Mesa's software one where there is no other.

use crate::commands::{continues, gleed, json, refused};

#[test]
fn a_gpu_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--device", "0"]);
    continues("tiny-qwen3", &["--device", "0", "--kv", "f32"]);
}

#[test]
fn a_split_model_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--device", "0", "--gpu-layers", "1"]);
    continues("tiny-qwen3", &["--device", "0", "--gpu-layers", "1", "--kv", "f32"]);
}

/// What greedy choices make of a beginning.
fn story(options: &[&str]) -> Vec<u8> {
    let output = gleed(&[&["run", "Once upon a time", "--temperature", "0", "-n", "24"], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_gpu_tells_the_same_story() {
    assert_eq!(story(&["--device", "0"]), story(&["--device", "cpu", "--arithmetic", "f32"]));
}

#[test]
fn any_number_of_layers_on_the_gpu_tells_the_same_story() {
    let truth = story(&["--device", "cpu", "--arithmetic", "f32"]);
    for layers in ["1", "5", "6", "99"] {
        assert_eq!(
            story(&["--device", "0", "--gpu-layers", layers, "--arithmetic", "f32"]),
            truth,
            "{layers}"
        );
    }
    // None at all is the CPU, in its own arithmetic, whatever the device.
    let cpu = story(&["--device", "cpu"]);
    for device in ["0", "cpu", "auto"] {
        assert_eq!(story(&["--device", device, "--gpu-layers", "0"]), cpu, "{device}");
    }
}

#[test]
fn a_split_model_is_measured_and_validated() {
    let split = ["--device", "0", "--gpu-layers", "2", "--json"];
    let measured = json(&[&["bench", "stories15M", "-p", "5", "-n", "2", "-r", "1"], &split[..]].concat());
    let device = measured["device"].as_str().unwrap();
    assert!(device.starts_with("4 of 6 layers on ") && device.contains("2 and the head on "), "{device}");
    assert_eq!(measured["arithmetic"], "q8, then f32");
    for check in [&[][..], &["--ops"], &["--against-rows"]] {
        let checked =
            json(&[&["validate", "stories15M", "--prompt", "Once upon a time"], check, &split].concat());
        assert_eq!(checked["passed"], true, "{check:?}");
    }
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
    refused(&["run", "Hi", "--device", "cpu", "--gpu-layers", "3"], "--gpu-layers 3 is for a GPU");
    refused(&["run", "Hi", "--device", "a card from 2050"], "a card from 2050");
}
