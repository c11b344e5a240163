//! Models of the hub named by their repository: the hub's listing says which files there are.

use serde_json::{Value, json};

use crate::machine::{Machine, sha256};
use crate::server::{Reply, Server};

/// What the hub says about a repository, as far as we read it, and a little that we do not.
pub fn listing(architecture: &str, files: &[(&str, u64)]) -> Value {
    let sibling = |(name, size): &(&str, u64)| json!({ "rfilename": name, "size": size, "blobId": "0" });
    json!({
        "id": "o/r",
        "siblings": files.iter().map(sibling).collect::<Vec<_>>(),
        "gguf": { "architecture": architecture, "total": 1, "context_length": 1 },
    })
}

/// A hub whose every repository has these files, of five bytes each.
fn hub(files: &'static [&'static str]) -> Server {
    let listing = listing("llama", &files.iter().map(|file| (*file, 5)).collect::<Vec<_>>()).to_string();
    Server::with_listings(
        move |_, _| Reply::new(200, listing.as_bytes()),
        move |request, _| match files.iter().any(|file| request.path.ends_with(file)) {
            true => Reply::file(request, b"model", &sha256(b"model")),
            false => Reply::new(404, b""),
        },
    )
}

#[test]
fn the_hub_lists_files_and_the_nearest_format_is_pulled() {
    let server = hub(&["README.md", "m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-f16.gguf"]);
    let machine = Machine::new(&server.address).with_token("hf_secret");
    let said = machine.run(&["pull", "hf:o/r"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let file = "hub/o/r/main/m-Q4_K_M.gguf";
    assert_eq!(said.stdout.trim_end(), machine.cache().join(file).to_str().unwrap());
    assert_eq!(machine.cached(), [file]);
    let [asked] = &server.listings()[..] else { panic!("{:?}", server.listings()) };
    assert_eq!(asked.path, "/api/models/o/r/revision/main?blobs=true");
    assert_eq!(asked.header("authorization"), Some("Bearer hf_secret"));

    // What is here is kept without a choice; another format is chosen only when it is asked for.
    assert_eq!(machine.run(&["pull", "hf:o/r"]).code, Some(0));
    assert_eq!(server.listings().len(), 1);
    assert_eq!(server.summary(), ["GET all", "HEAD all"]);
    assert_eq!(machine.run(&["pull", "hf:o/r@v2:q8_0"]).code, Some(0));
    assert_eq!(machine.cached(), [file, "hub/o/r/v2/m-Q8_0.gguf"]);
    assert_eq!(server.listings()[1].path, "/api/models/o/r/revision/v2?blobs=true");
}

#[test]
fn split_files_are_pulled_whole() {
    let server = hub(&["Q6_K/m-00001-of-00002.gguf", "Q6_K/m-00002-of-00002.gguf"]);
    let machine = Machine::new(&server.address);
    let said = machine.run(&["pull", "hf:o/r"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        machine.cached(),
        ["hub/o/r/main/Q6_K/m-00001-of-00002.gguf", "hub/o/r/main/Q6_K/m-00002-of-00002.gguf"]
    );
}

#[test]
fn what_cannot_be_chosen_is_one_line() {
    let server = hub(&["m-Q4_0.gguf", "m-Q8_0.gguf", "other-Q8_0.gguf"]);
    let machine = Machine::new(&server.address);
    machine.run(&["pull", "hf:o/r:Q4_K_M"]).assert_error("hf:o/r:Q4_K_M has no Q4_K_M, but Q4_0, Q8_0");
    machine.run(&["pull", "hf:o/r:Q8_0"]).assert_error("name one, as hf:o/r/m-Q8_0.gguf");
    assert!(server.requests().is_empty());
    let empty = hub(&["README.md"]);
    Machine::new(&empty.address).run(&["pull", "hf:o/r"]).assert_error("hf:o/r has no model in a .gguf file");
}

#[test]
fn a_listing_that_does_not_come_is_one_line() {
    for (status, body, words) in [
        (404, "", "the hub has no hf:o/r (or no repository o/r with a revision main)"),
        (401, "", "o/r is private, gated or does not exist: set HF_TOKEN"),
        (200, "<html>", "hf:o/r: the hub's list of files cannot be read"),
        (200, r#"{"siblings": 7}"#, "hf:o/r: the hub's list of files cannot be read"),
    ] {
        let listing = move |_: &_, _| Reply::new(status, body.as_bytes());
        let server = Server::with_listings(listing, |_, _| Reply::new(404, b""));
        Machine::new(&server.address).run(&["pull", "hf:o/r"]).assert_error(words);
        assert_eq!(server.listings().len(), 1);
    }
    // A busy hub is asked again.
    let listing = listing("llama", &[("m.gguf", 5)]).to_string();
    let server = Server::with_listings(
        move |_, before| match before {
            0 => Reply::new(503, b"").header("retry-after", "0"),
            _ => Reply::new(200, listing.as_bytes()),
        },
        |request, _| Reply::file(request, b"model", &sha256(b"model")),
    );
    let machine = Machine::new(&server.address);
    assert_eq!(machine.run(&["pull", "hf:o/r"]).code, Some(0));
    assert_eq!(machine.cached(), ["hub/o/r/main/m.gguf"]);
}
