//! A file whose texts are meant for the terminal: what is shown of it has nothing that a terminal would obey.

use std::process::Output;

use gleed_gguf::{Format, Gguf, TensorSpec, Value, Writer};

use crate::commands::{gleed, json, scratch, stories};

/// Clears the screen, sets the title, fakes a line, turns text around, hides itself.
const NAME: &str =
    "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nerror: all is lost\u{202e}txt.\u{2066}\u{9b}31m\u{200b}\u{7f}";

/// The model of the repository with hostile metadata and a hostile tensor, and one of its texts replaced.
fn hostile(file: &str, key: &str, text: &str) -> String {
    let stories = Gguf::open(stories().as_ref()).unwrap();
    let mut metadata = stories.metadata().clone();
    metadata.set("general.name", Value::Str(NAME.to_string()));
    metadata.set(NAME, Value::Str(NAME.to_string()));
    metadata.set(key, Value::Str(text.to_string()));
    let mut specs: Vec<TensorSpec> = stories.tensors().iter().map(TensorSpec::from).collect();
    specs.push(TensorSpec { name: NAME.to_string(), shape: vec![32], format: Format::F32 });
    let path = scratch(file);
    let mut writer = Writer::create(&path, &metadata, &specs).unwrap();
    for tensor in stories.tensors() {
        writer.write(&tensor.name, stories.data(tensor)).unwrap();
    }
    writer.write(NAME, &[0; 128]).unwrap();
    writer.finish().unwrap();
    path.to_str().unwrap().to_string()
}

/// Everything that a command said, with nothing in it but text and ends of lines.
fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let turns = ['\u{200e}', '\u{200f}', '\u{61c}', '\u{2028}', '\u{2029}', '\u{200b}', '\u{feff}'];
    let obeyed = |c: char| {
        (c.is_control() && c != '\n')
            || turns.contains(&c)
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    assert!(!text.contains(obeyed), "{text:?}");
    for line in text.lines() {
        assert!(!line.starts_with("error: all is lost"), "a line was faked: {text}");
    }
    text
}

#[test]
fn what_a_file_says_is_shown_and_not_obeyed() {
    let model = hostile("hostile.gguf", "general.description", NAME);
    for options in [&[][..], &["--tensors"], &["--program"], &["--plain"]] {
        let output = gleed(&[&["inspect", &model], options].concat());
        assert!(output.status.success());
        let text = said(&output);
        let named = options.is_empty() || options == ["--tensors"];
        assert_eq!(named, text.contains("\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\r\\nerror"), "{options:?}: {text}");
    }
    said(&gleed(&["inspect", &model, "--json"]));
    let whole = json(&["inspect", &model, "--json"]);
    assert_eq!(whole["metadata"][NAME], NAME, "JSON means what the file says");
    let run = gleed(&["run", &model, "Once", "-n", "2", "--temperature", "0"]);
    assert!(run.status.success());
    let warned = said(&run);
    assert!(warned.contains("1 tensors are not used, such as \\u{1b}[2J"), "{warned}");
}

#[test]
fn errors_that_quote_a_file_are_one_line() {
    for (file, key) in
        [("hostile-family.gguf", "general.architecture"), ("hostile-words.gguf", "tokenizer.ggml.model")]
    {
        let model = hostile(file, key, NAME);
        let output = gleed(&["run", &model, "Once", "-n", "2"]);
        assert!(!output.status.success());
        let text = said(&output);
        let errors = text.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{text}");
        assert!(text.contains("\\u{1b}[2J\\u{1b}]0;owned"), "{text}");
    }
}
