//! Guesses for one person: `run` and `chat` say the same with them and without, and tell what they came to.

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
        &[],
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

/// What was said in a chat of three questions with these options, as the chat saves it, and all that its terminal showed.
/// `script` gives it a terminal; a dumb one takes lines as they come.
#[cfg(target_os = "linux")]
fn chat(name: &str, options: &str) -> (String, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use crate::commands::scratch;

    let saved = scratch(&format!("chat-{name}.txt"));
    let _ = std::fs::remove_file(&saved);
    let (gleed, model) = (env!("CARGO_BIN_EXE_gleed"), stories());
    let line = format!("'{gleed}' chat '{model}' -n 40 --temperature 0.4 --seed 5 --stats {options}");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("GLEED_CACHE", scratch(&format!("chat-{name}")))
        .env("NO_COLOR", "1")
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let questions = format!("{PROMPT}\nWhat next?\nOnce more?\n/save {}\n/exit\n", saved.display());
    terminal.stdin.take().unwrap().write_all(questions.as_bytes()).unwrap();
    let shown = String::from_utf8(terminal.wait_with_output().unwrap().stdout).unwrap();
    (std::fs::read_to_string(&saved).unwrap_or_else(|_| panic!("{shown}")), shown)
}

#[test]
#[cfg(target_os = "linux")]
fn guesses_change_no_conversation() {
    let (plain, shown) = chat("off", "--speculation off");
    assert_eq!((plain.matches("user:").count(), plain.matches("assistant:").count()), (3, 3), "{plain}");
    assert!(shown.contains(" generated at ") && !shown.contains("guesses right"), "{shown}");
    let (answers, shown) = chat("always", "--speculation always");
    assert_eq!(answers, plain);
    assert!(shown.contains(" guesses right, "), "{shown}");
    assert_eq!(chat("auto", "").0, plain);
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
