//! `gleed bench` as a script would call it: alone, and against peers that work, fail or talk nonsense.

use serde_json::Value;

use crate::commands::{gleed, json, refused, scratch, stories};

fn names(report: &Value) -> Vec<&str> {
    report["results"].as_array().unwrap().iter().map(|r| r["test"].as_str().unwrap()).collect()
}

fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!(number > 0.0, "{number}");
    number
}

#[test]
fn bench_reports_what_was_asked_for() {
    let arguments = ["bench", &stories(), "-p", "19,40", "-n", "8", "-d", "0,64", "-r", "2", "--json"];
    let report = json(&[&arguments[..], &["--ops", "--per-token"]].concat());
    assert_eq!(names(&report), ["pp19", "pp40", "tg8", "pp19 @ d64", "pp40 @ d64", "tg8 @ d64"]);
    for result in report["results"].as_array().unwrap() {
        let (low, median) = (positive(&result["low"]), positive(&result["median"]));
        assert!(low <= median && median <= positive(&result["high"]));
        assert_eq!(result["runs"].as_array().unwrap().len(), 2);
        positive(&result["share_of_limit"]);
    }
    positive(&report["results"][0]["batch_gain"]);
    for limit in ["memory", "f32", "int8"] {
        positive(&report["limits"][limit]);
    }
    assert_eq!(report["limit_samples"].as_array().unwrap().len(), 2);
    let profiles = report["ops"].as_array().unwrap();
    assert_eq!(profiles.len(), 6);
    let attention =
        profiles[3]["ops"].as_array().unwrap().iter().find(|op| op["kind"] == "attention").unwrap();
    // Six layers of 83 positions of two times 288 halves, in one step.
    assert_eq!(attention["kv_bytes"].as_f64(), Some((6 * 83 * 2 * 288 * 2) as f64));
    positive(&attention["share_of_limit"]);
    let kernels = json(&["bench", &stories(), "--kernels", "--json"]);
    assert!(kernels["kernels"].as_array().unwrap().len() >= 10);
}

#[test]
fn sequences_decode_together_and_are_compared_with_one() {
    let arguments = ["bench", &stories(), "-p", "0", "-n", "8", "-s", "1,4", "-d", "20", "-r", "1", "--json"];
    let report = json(&arguments);
    assert_eq!(names(&report), ["tg8 @ d20", "tg8 x4 @ d20"]);
    let results = &report["results"];
    assert!(results[0]["of_one_sequence"].is_null());
    let ratio = positive(&results[1]["median"]) / positive(&results[0]["median"]);
    assert!((positive(&results[1]["of_one_sequence"]) - ratio).abs() < 1e-9);
}

#[test]
fn the_table_is_aligned_and_alone_on_stdout() {
    let picture = scratch("roofline.svg");
    let path = picture.to_str().unwrap();
    let output = gleed(&["bench", &stories(), "-p", "16", "-n", "4", "-r", "1", "--plot", path]);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("test") && lines[1].starts_with("pp16") && lines[2].starts_with("tg4"));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("limits: memory ") && notes.contains("GB/s"), "{notes}");
    assert!(!notes.contains('\u{1b}') && !notes.contains('\r'), "no progress where nobody watches: {notes}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("stories15M-q8_0.gguf"));
    assert!(picture.contains("pp16 · ") && picture.contains("tg4 · "));
}

#[test]
fn the_start_is_measured_without_a_peer() {
    let report = json(&["bench", &stories(), "--start", "-r", "2", "--json"]);
    assert_eq!(report["start"]["runs"].as_array().unwrap().len(), 2);
    assert!(positive(&report["start"]["first_token_seconds"]) < 30.0);
    // At least the weights, at most what no one would believe of 25 MB.
    let peak = positive(&report["start"]["peak_memory_bytes"]);
    assert!((20e6..400e6).contains(&peak), "{peak}");
    assert!(report["peer_start"].is_null());
}

#[test]
fn impossible_wishes_are_refused() {
    let model = stories();
    refused(&["bench", &model, "-p", "100000"], "256");
    refused(&["bench", &model, "-d", "250", "-n", "100"], "256");
    refused(&["bench", &model, "-r", "0"], "--repetitions");
    refused(&["bench", &model, "-p", "8", "-n", "0", "-s", "4"], "--sequences");
    refused(&["bench", &model, "-n", "8", "-s", "0"], "--sequences 0");
    refused(&["bench", &model, "-p", "0", "-n", "0"], "nothing to measure");
    refused(&["bench", &model, "--against", "/no/such/llama-bench"], "/no/such/llama-bench");
    refused(&["bench", "stories15M", "--against", "/bin/sh"], "model in a file");
    refused(
        &["bench", &model, "-p", "4", "-n", "0", "-r", "1", "--plot", "/no/such/folder/a.svg"],
        "/no/such/folder",
    );
}

/// Peers made of shell scripts.
#[cfg(unix)]
mod peers {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A folder with scripts of these names; each also writes down how it was called.
    fn peer(folder: &str, scripts: &[(&str, &str)]) -> PathBuf {
        let folder = scratch(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let calls = folder.join("calls");
        let _ = std::fs::remove_file(&calls);
        for (name, script) in scripts {
            let path = folder.join(name);
            let script = format!("#!/bin/sh\necho {name} \"$@\" >> '{}'\n{script}\n", calls.display());
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    /// What `llama-bench` prints where it finds two threads and 50 tokens a second.
    const BENCH: &str = r#"echo 'load_backend: loaded CPU backend from /x/libggml-cpu-haswell.so' >&2
echo '[{"build_commit": "abc", "build_number": 77, "n_threads": 2, "avg_ts": 50.0, "samples_ts": [50.0]}]'"#;
    const BATCHED: &str = r#"echo; echo '{"n_threads": 2, "pl": 4, "speed_pp": 1.0, "speed_tg": 100.0}'"#;

    fn calls(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("calls")).unwrap()
    }

    #[test]
    fn a_peer_is_measured_in_turn_and_told_what_we_were_told() {
        let folder = peer("peer", &[("llama-bench", BENCH), ("llama-batched-bench", BATCHED)]);
        let program = folder.join("llama-bench");
        let arguments =
            ["bench", &stories(), "-p", "16", "-n", "4", "-d", "8", "-s", "4", "-r", "3", "-t", "2"];
        let more = ["--kv", "q8_0", "--isa", "portable", "--json", "--against", program.to_str().unwrap()];
        let report = json(&[&arguments[..], &more, &["--against-options", "--poll 0"]].concat());
        for (result, theirs) in report["results"].as_array().unwrap().iter().zip([50.0, 50.0, 100.0]) {
            assert_eq!(result["peer"]["median"], theirs);
            assert_eq!(result["peer"]["runs"].as_array().unwrap().len(), 3);
            let ratio = positive(&result["median"]) / theirs;
            assert!((positive(&result["ratio"]) - ratio).abs() < 1e-9);
        }
        assert_eq!(report["peer"]["build"], 77);
        assert_eq!(report["peer"]["cpu_variant"], "haswell");
        assert_eq!(report["peer"]["instructions"]["avx2"], true);
        let [warning] = &report["warnings"].as_array().unwrap()[..] else { panic!("{}", report["warnings"]) };
        assert!(warning.as_str().unwrap().contains("uses AVX2, which ours does not"), "{warning}");
        let model = stories();
        let common = format!("-m {model} -t 2 -ctk q8_0 -ctv q8_0 -fa on --poll 0");
        let round = format!(
            "llama-bench {common} -p 16 -n 0 -d 8 -r 1 -o json -ngl 0\n\
             llama-bench {common} -p 0 -n 4 -d 8 -r 1 -o json -ngl 0\n\
             llama-batched-bench {common} -c 48 -npl 4 -npp 8 -ntg 4 --output-format jsonl -ngl 0\n"
        );
        assert_eq!(calls(&folder), round.repeat(3));
    }

    #[test]
    fn a_peer_with_other_threads_or_unknown_instructions_is_told() {
        let script = BENCH.replace("haswell", "abacus").replace("\"n_threads\": 2", "\"n_threads\": 7");
        let folder = peer("threads", &[("llama-bench", &script)]);
        let program = folder.join("llama-bench");
        let arguments = ["bench", &stories(), "-p", "4", "-n", "0", "-r", "1", "-t", "1"];
        let output = gleed(&[&arguments[..], &["--against", program.to_str().unwrap()]].concat());
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(notes.contains("peer: llama.cpp build 77 (abc), CPU variant abacus"), "{notes}");
        assert!(notes.contains("does not say which instructions"), "{notes}");
        assert!(notes.contains("the peer ran with 7 threads, ours with 1"), "{notes}");
    }

    #[test]
    fn our_figures_are_shown_when_the_peer_fails() {
        let cases = [
            ("garbage", "echo tokens: many", "did not print the JSON of llama-bench"),
            ("empty", "echo '[]'", "answered 0 tests, not 1"),
            ("exit", "echo cannot load this >&2; exit 1", "cannot load this"),
            ("zero", &BENCH.replace("50.0", "0.0"), "measured 0 tokens per second"),
        ];
        for (name, script, expected) in cases {
            let folder = peer(name, &[("llama-bench", script)]);
            let program = folder.join("llama-bench");
            let (model, program) = (stories(), program.to_str().unwrap());
            let arguments = ["bench", &model, "-p", "16", "-n", "4", "-s", "2", "--against", program, "-r"];
            let output = gleed(&[&arguments[..], &["2"]].concat());
            assert!(output.status.success());
            let (table, notes) =
                (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
            assert_eq!(table.lines().count(), 4, "{table}");
            assert_eq!(table.matches("failed").count(), 3, "{table}");
            assert!(notes.contains("warning: pp16: the peer was not measured: "), "{notes}");
            assert!(notes.contains(expected), "{notes}");
            assert!(notes.contains("there is no llama-batched-bench beside"), "{notes}");
            // What has failed once is not tried again.
            assert_eq!(calls(&folder).lines().count(), 2);
            let report = json(&[&arguments[..], &["1", "--json"]].concat());
            assert!(report["results"][0]["peer_error"].as_str().unwrap().contains(expected));
            assert!(report["results"][0]["peer"].is_null());
            positive(&report["results"][0]["median"]);
        }
    }

    #[test]
    fn the_start_is_compared() {
        const COMPLETION: &str =
            "echo 'system_info: n_threads = 2 | CPU : AVX2 = 1 |' >&2\nsleep 0.5\necho word\nsleep 2";
        let folder = peer("start", &[("llama-bench", BENCH), ("llama-completion", COMPLETION)]);
        let program = folder.join("llama-bench");
        let arguments = ["bench", &stories(), "--start", "-r", "1", "--json", "--isa", "portable"];
        let report = json(&[&arguments[..], &["--against", program.to_str().unwrap()]].concat());
        let theirs = positive(&report["peer_start"]["first_token_seconds"]);
        assert!((0.5..2.5).contains(&theirs), "{theirs}");
        let ratio = positive(&report["start"]["first_token_seconds"]) / theirs;
        assert!((positive(&report["first_token_ratio"]) - ratio).abs() < 1e-9);
        positive(&report["peak_memory_ratio"]);
        assert!(report["warnings"][0].as_str().unwrap().contains("uses AVX2"), "{}", report["warnings"]);
        assert!(calls(&folder).contains("--no-warmup --no-display-prompt"));
        // And without the tool that starts.
        std::fs::remove_file(folder.join("llama-completion")).unwrap();
        let output =
            gleed(&["bench", &stories(), "--start", "-r", "1", "--against", program.to_str().unwrap()]);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && notes.contains("there is no llama-completion beside"), "{notes}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("gleed"));
    }
}

#[test]
fn guesses_are_measured_and_change_nothing() {
    let model = stories();
    let arguments =
        ["bench", &model, "--guesses", "-n", "12", "-r", "1", "--speculation", "always", "--json"];
    // The model is its own draft: all that it guesses is right.
    let report = json(&[&arguments[..], &["--draft", &model]].concat());
    let gains = report["guesses"].as_array().unwrap();
    assert_eq!(gains.len(), 2);
    for gain in gains {
        assert_eq!(gain["same"], true, "{gain}");
        positive(&gain["ratio"]);
        let drafted = positive(&gain["guessed_tokens"]);
        assert!(positive(&gain["accepted_tokens"]) >= drafted / 2.0, "{gain}");
    }
    assert!(!gleed(&["bench", &model, "--draft", &model]).status.success(), "a draft without guesses");
}
