//! Checkpoint folders on the command line.

use gleed_testing::checkpoint::Folder;

use crate::commands::{json, refused, scratch};

#[test]
fn a_folder_and_the_file_made_of_it_say_the_same() {
    let (folder, _) = Folder::written_by_transformers();
    let (folder, out) = (folder.path().to_str().unwrap(), scratch("converted.gguf"));
    let out = out.to_str().unwrap();
    let report = json(&["convert", folder, out, "--json"]);
    assert_eq!((&report["type"], &report["path"]), (&"bf16".into(), &out.into()));
    let told = |model: &str| {
        let answer = json(&["run", model, "Call me", "--raw", "--temperature", "0", "-n", "12", "--json"]);
        (answer["prompt_tokens"].clone(), answer["tokens"].clone(), answer["logprobs"].clone())
    };
    assert_eq!(told(folder), told(out));
    let count = |model: &str| json(&["inspect", model, "--json"])["tensors"].clone();
    assert_eq!(count(folder), count(out));

    let report = json(&["convert", folder, out, "--type", "q8_0", "--json"]);
    assert_eq!(report["type"], "q8_0");
    let quantised = scratch("quantised.gguf");
    json(&["quantize", folder, quantised.to_str().unwrap(), "--type", "q8_0", "--json"]);
    assert!(std::fs::read(out).unwrap() == std::fs::read(quantised).unwrap());
}

#[test]
fn folders_that_cannot_be_read_get_one_clear_line() {
    let (folder, _) = Folder::written_by_transformers();
    let path = folder.path().to_str().unwrap();
    let out = scratch("never.gguf");
    let out = out.to_str().unwrap();
    refused(&["convert", &format!("{path}/config.json"), out], "is not a folder");
    refused(
        &["convert", "/no/such/folder", out],
        "/no/such/folder: there is no such folder; check the path\n",
    );
    refused(&["convert", path, out, "--threads", "0"], "--threads");
    std::fs::write(folder.path().join("config.json"), r#"{"architectures": ["NoSuchModel"]}"#).unwrap();
    refused(&["convert", path, out], "NoSuchModel is not a model that can be read");
    refused(&["run", path, "Hello"], "NoSuchModel is not a model that can be read");
    assert!(!std::path::Path::new(out).exists());
}
