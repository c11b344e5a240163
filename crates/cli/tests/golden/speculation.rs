//! Guesses for one person: `run` says the same with them and without, and tells what they came to.

use serde_json::Value;

use crate::commands::{gleed, json, refused, stories};
use gleed_testing::golden::tiny_model;

/// A text that repeats itself, as a list does that is to be written once more.
const PROMPT: &str =
    "Tim had a red ball, a blue ball, a red ball, a blue ball, a red ball, a blue ball, a red";

#[test]
fn guesses_change_no_answer() {
    let model = stories();
    let samplings = [
        &["--seed", "6", "--temperature", "0"][..],
        &["--seed", "7", "--temperature", "0.6"],
        &["--seed", "8", "--repeat-penalty", "1.1", "--stop", "park"],
    ];
    let ways = [
        &["--speculation", "always"][..],
        &["--speculation", "always", "--draft", &model],
        &["--draft", &model],
    ];
    for sampling in samplings {
        let run = |way: &[&str]| {
            let arguments = ["run", &model, PROMPT, "-n", "60", "--logprobs", "2", "--json"];
            json(&[&arguments[..], sampling, way].concat())
        };
        let count = |answer: &Value, name: &str| answer["speculation"][name].as_u64().unwrap();
        let plain = run(&["--speculation", "off"]);
        assert_eq!((count(&plain, "guessed_tokens"), &plain["speculation"]["speedup"]), (0, &Value::Null));
        for (number, way) in ways.into_iter().enumerate() {
            let answer = run(way);
            for field in ["tokens", "logprobs", "top_logprobs", "text", "finish_reason", "seed"] {
                assert_eq!(answer[field], plain[field], "{field} with {way:?} and {sampling:?}");
            }
            let (guessed, accepted) = (count(&answer, "guessed_tokens"), count(&answer, "accepted_tokens"));
            assert!(accepted <= guessed);
            // What pays is the machine's to say; the model as its own draft is right whenever the likeliest is chosen.
            match number {
                0 => assert!(guessed > 0, "{way:?} and {sampling:?}"),
                1 => assert!(accepted > 10, "{accepted} of {guessed}, {way:?} and {sampling:?}"),
                _ => {}
            }
            if (number, sampling) == (0, samplings[0]) {
                assert!(accepted > 0, "{accepted} of {guessed} in a text that repeats itself");
                assert!(answer["speculation"]["speedup"].as_f64().is_some_and(|speedup| speedup > 0.0));
            }
        }
    }
}

#[test]
fn what_guesses_came_to_is_told() {
    let run = |more: &[&str]| {
        let arguments = ["run", "stories15M", PROMPT, "-n", "30", "--temperature", "0"];
        gleed(&[&arguments[..], more].concat())
    };
    let (plain, told) = (run(&["--speculation", "off"]), run(&["--speculation", "always", "--stats"]));
    assert_eq!((plain.stdout, plain.stderr), (told.stdout, vec![]));
    let line = String::from_utf8(told.stderr).unwrap();
    assert!(line.contains("30 generated at") && line.contains(" guesses right, "), "{line}");
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn drafts_that_cannot_guess_are_refused() {
    let (model, other) = (stories(), tiny_model("tiny-llama3"));
    let other = other.to_str().unwrap();
    for (draft, why) in [(other, "its tokens are others"), ("no-such-draft.gguf", "no file or model named")] {
        refused(&["run", &model, "Hi", "--draft", draft], &format!("--draft {draft}: {why}"));
    }
    let unknown = gleed(&["run", "Hi", "--speculation", "perhaps"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("must be auto, always or off"));
}
