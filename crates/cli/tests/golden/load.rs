//! `gleed bench --server` as a script would call it, against servers whose answers are known.

use gleed_testing::{Behaviour, Fault, MockServer};
use serde_json::json;

use crate::commands::{gleed, json, refused, scratch};

#[test]
fn a_load_is_reported_as_json() {
    let (ours, peer) = (MockServer::start(Behaviour::default()), MockServer::start(Behaviour::default()));
    let picture = scratch("load.svg");
    let path = picture.to_str().unwrap();
    let arguments =
        ["bench", "--server", ours.address(), "--against", peer.address(), "--clients", "1,3", "--requests"];
    let lengths =
        ["--input", "20-30", "--output", "5", "-r", "2", "--shared-prefix", "40", "--plot", path, "--json"];
    let report = json(&[&arguments[..], &["6"], &lengths[..]].concat());
    assert_eq!(report["server"]["model"], "mock-model");
    assert_eq!(report["server"]["ignore_eos"], true);
    assert_eq!(report["warnings"], json!([]));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, name) in results.iter().zip(["1 client", "3 clients"]) {
        assert_eq!(result["name"], name);
        for side in [result, &result["peer"]] {
            assert_eq!((&side["completed"], &side["output_tokens"]), (&json!(12), &json!(60)));
            assert_eq!(side["errors"], json!({}));
            // Five of six requests of a round find the forty shared words.
            assert!(side["cached_tokens"].as_u64().unwrap() >= 2 * 5 * 40);
            let first = &side["first_token"];
            assert!(first["p50"].as_f64().unwrap() <= first["p99"].as_f64().unwrap());
        }
        assert!(result["ratios"]["output_tokens_per_second"].as_f64().unwrap() > 0.0);
    }
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("clients") && picture.contains("mock-model"));
}

#[test]
fn a_load_is_a_table_for_people() {
    let fault = |number: usize| (number == 10).then_some(Fault::Status(503));
    let server = MockServer::start(Behaviour { fault, ..Behaviour::default() });
    let arguments =
        ["bench", "--server", server.address(), "--rate", "100", "--arrivals", "constant", "--requests"];
    let output = gleed(&[&arguments[..], &["8", "--output", "4"]].concat());
    let (table, notes) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{notes}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("load") && lines[1].starts_with("100/s even"), "{table}");
    assert!(lines[1].ends_with("7  1 status 503"), "{table}");
    for name in ["first token", "between tokens", "each token after it", "whole answer"] {
        assert!(lines.iter().any(|line| line.contains(name)), "{table}");
    }
    assert!(notes.contains("1 requests failed; the first: status 503: as asked"), "{notes}");
}

#[test]
fn a_trace_is_recorded_and_replayed() {
    let server = MockServer::start(Behaviour::default());
    let file = scratch("trace.jsonl");
    let file = file.to_str().unwrap();
    let arguments = ["bench", "--server", server.address(), "--json", "--output", "3", "--input", "9"];
    json(&[&arguments[..], &["--rate", "200", "--requests", "5", "--record", file]].concat());
    let report = json(&[&arguments[..], &["--trace", file]].concat());
    assert_eq!(
        (&report["results"][0]["name"], &report["results"][0]["completed"]),
        (&json!("trace"), &json!(5))
    );
    std::fs::write(file, "{\"at\": 0}\n").unwrap();
    refused(&["bench", "--server", server.address(), "--trace", file], "line 1: there is neither \"prompt\"");
}

#[test]
fn answers_are_compared_and_a_difference_is_a_failure() {
    let slow = || Behaviour { first: std::time::Duration::from_millis(10), ..Behaviour::default() };
    let honest = MockServer::start(slow());
    let arguments =
        |server| ["bench", "--server", server, "--same-bytes", "--requests", "30", "--output", "4"];
    let report = json(&[&arguments(honest.address())[..], &["--json"]].concat());
    assert_eq!(report["all_same"], true);
    assert_eq!(report["same_bytes"]["ways"][2]["same"], 30);
    let cheat = MockServer::start(Behaviour { cheats: true, ..slow() });
    let output = gleed(&arguments(cheat.address()));
    assert!(!output.status.success());
    let (table, notes) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let alone = table.lines().find(|line| line.starts_with("alone, warm cache")).unwrap();
    assert!(alone.contains("100.0 %"), "{table}");
    let crowd = table.lines().find(|line| line.starts_with("together, cold cache")).unwrap();
    assert!(!crowd.contains("100.0 %"), "{table}");
    assert!(notes.contains("became") && notes.contains("error: not every answer was the same"), "{notes}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = MockServer::start(Behaviour::default());
    let address = server.address();
    let refused_with = |more: &[&str], expected: &str| {
        refused(&[&["bench", "--server", address], more].concat(), expected);
    };
    refused_with(&["--rate", "0"], "0 requests a second");
    refused_with(&["--clients", "4,5000"], "5000 clients");
    refused_with(&["--requests", "0"], "--requests must be at least 1");
    refused_with(&["--seconds", "0"], "--seconds must be a number above 0");
    refused_with(&["--shared-prefix", "5", "--share", "2"], "--share must be from 0 to 1");
    refused_with(&["--timeout", "0"], "--timeout");
    refused_with(&["--clients", "1,2", "--record", "x"], "--record writes one load");
    refused(&["bench", "--server", "ftp://x"], "only http and https");
    refused(&["bench", "--server", "127.0.0.1:9"], "no connection");
    for nonsense in [&["--input", "9-8"][..], &["--same-bytes", "--rate", "5"], &["-p", "5"]] {
        let output = gleed(&[&["bench", "--server", address], nonsense].concat());
        assert_eq!(output.status.code(), Some(2), "{nonsense:?}");
    }
    assert_eq!(gleed(&["bench", "m", "--rate", "5"]).status.code(), Some(2), "a load needs a server");
    assert_eq!(gleed(&["bench"]).status.code(), Some(2));
}
