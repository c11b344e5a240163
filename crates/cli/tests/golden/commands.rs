//! The commands as a script would call them, on the model in the repository.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use gleed_testing::golden::{golden, root, test_data};

pub fn gleed(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleed"));
    command.args(arguments).env("GLEED_CACHE", scratch("cache")).env("NO_COLOR", "1");
    command.output().unwrap()
}

/// A file or folder of these tests' own.
pub fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("commands");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

pub fn json(arguments: &[&str]) -> serde_json::Value {
    let output = gleed(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gleed {}: {stderr}", arguments.join(" "));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One line on stderr that says this, nothing on stdout, a non-zero exit.
pub fn refused(arguments: &[&str], expected: &str) {
    let output = gleed(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "gleed {} succeeded", arguments.join(" "));
    assert_eq!(output.stdout, b"", "gleed {}", arguments.join(" "));
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{stderr:?} lacks {expected:?}");
}

pub fn stories() -> String {
    root().join("models/stories15M-q8_0.gguf").to_str().unwrap().to_string()
}

/// A tiny model continues its prompts as llama.cpp does, with these options.
pub fn continues(name: &str, options: &[&str]) {
    let model = test_data(&format!("tiny/{name}.F32.gguf"));
    let model = model.to_str().unwrap();
    for golden in golden(&format!("tiny/{name}")) {
        let count = golden.gen_ids.len().to_string();
        let arguments = ["run", model, &golden.prompt, "--raw", "--temperature", "0", "--max-tokens", &count];
        let answer = json(&[&arguments[..], &["--ignore-eos", "--json"], options].concat());
        assert_eq!(answer["prompt_tokens"], serde_json::json!(golden.prompt_ids));
        let ours: Vec<u64> =
            answer["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
        // Up to the first choice that is too close to call.
        let clear = golden.margins.iter().position(|m| *m < 4e-3).unwrap_or(golden.gen_ids.len());
        assert!(clear > 3);
        assert_eq!(ours[..clear], golden.gen_ids[..clear].iter().map(|t| u64::from(*t)).collect::<Vec<_>>());
        for (ours, theirs) in answer["logprobs"].as_array().unwrap()[..clear].iter().zip(&golden.gen_logprobs)
        {
            assert!((ours.as_f64().unwrap() - f64::from(*theirs)).abs() < 5e-3);
        }
        assert_eq!(answer["finish_reason"], "length");
        let timings = &answer["timings"];
        for rate in ["tokens_per_second", "time_to_first_token_seconds"] {
            assert!(timings[rate].as_f64().unwrap() > 0.0, "{rate} of {timings}");
        }
    }
}

#[test]
fn run_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--arithmetic", "f32"]);
}

#[test]
fn the_built_in_model_tells_a_story() {
    let arguments = ["run", "Once upon a time", "--temperature", "0", "-n", "40"];
    let output = gleed(&arguments);
    assert!(output.status.success());
    let story = String::from_utf8(output.stdout).unwrap();
    assert!(story.contains("there was a little girl named Lily"), "{story}");
    let named = gleed(&["run", "stories15M", "Once upon a time", "--temperature", "0", "-n", "40"]);
    assert_eq!(named.stdout, story.as_bytes());
}

/// What `run` takes for the prompt of the built-in model, with this standard input.
fn prompt_of(arguments: &[&str], input: Stdio) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleed"));
    command.arg("run").args(arguments).args(["-n", "1", "--json"]);
    command.env("GLEED_CACHE", scratch("cache")).stdin(input);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let tokens: Vec<String> =
        report["prompt_tokens"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let text = json(&[&["detokenize", "stories15M", "--no-special", "--json"], &tokens[..]].concat());
    text["text"].as_str().unwrap().to_string()
}

#[test]
fn a_prompt_comes_from_words_files_and_pipes() {
    let file = scratch("question.txt");
    std::fs::write(&file, "One day\n").unwrap();
    let path = file.to_str().unwrap();
    let opened = || Stdio::from(std::fs::File::open(&file).unwrap());
    let piped = |text: &str| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        Stdio::from(reader)
    };
    let nothing = Stdio::null;
    assert_eq!(prompt_of(&["Tell me"], nothing()), "Tell me");
    assert_eq!(prompt_of(&["-p", "qwen3-8b"], nothing()), "qwen3-8b");
    assert_eq!(prompt_of(&["stories15M", "--prompt", "-5"], nothing()), "-5");
    assert_eq!(prompt_of(&["stories15M", "-f", path], nothing()), "One day");
    assert_eq!(prompt_of(&["-f", path], nothing()), "One day");
    assert_eq!(prompt_of(&["Tell me", "-f", path], nothing()), "Tell me\n\nOne day");
    assert_eq!(prompt_of(&["stories15M"], piped("Hello\n")), "Hello");
    assert_eq!(prompt_of(&[], piped("Hello\n")), "Hello");
    assert_eq!(prompt_of(&["stories15M", "-"], piped("Hello\n")), "Hello");
    assert_eq!(prompt_of(&["stories15M", "-f", "-"], piped("Hello\n")), "Hello");
    assert_eq!(prompt_of(&["stories15M"], opened()), "One day");
    assert_eq!(prompt_of(&["Tell me"], piped("Hello\n")), "Tell me\n\nHello");
    assert_eq!(prompt_of(&["Tell me"], piped("")), "Tell me");
    assert_eq!(prompt_of(&["stories15M", "Tell me"], opened()), "Tell me\n\nOne day");
    assert_eq!(prompt_of(&["Tell me", "-f", path], piped("Hello")), "Tell me\n\nOne day\n\nHello");
    // A file of which something has been read is a shell's, which reads on after us.
    let mut loop_of_a_shell = std::fs::File::open(&file).unwrap();
    loop_of_a_shell.seek(SeekFrom::Start(4)).unwrap();
    assert_eq!(prompt_of(&["Tell me"], Stdio::from(loop_of_a_shell)), "Tell me");
}

#[test]
fn a_pipe_through_which_nothing_comes_does_not_hold_up_an_answer() {
    let (reader, _silent) = std::io::pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleed"));
    command.args(["run", "Once upon a time", "--temperature", "0", "-n", "9"]).stdin(reader);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ", there was a little girl named Lily\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("warning: ") && stderr.contains("standard input"), "{stderr}");
}

#[test]
fn seeds_repeat_an_answer() {
    let story = |seed: &str| gleed(&["run", "One day", "--seed", seed, "-n", "30"]).stdout;
    assert_eq!(story("7"), story("7"));
    assert_ne!(story("7"), story("8"));
}

#[test]
fn flags_of_other_engines_are_understood() {
    let ours = ["--temperature", "0", "--max-tokens", "3", "--context", "64", "--gpu-layers", "0"];
    let theirs = ["--temp", "0", "--n-predict", "3", "--ctx-size", "64", "--n-gpu-layers", "0"];
    let short = ["--temp", "0", "-n", "3", "-c", "64", "-ngl", "0"];
    let answer =
        |flags: &[&str]| json(&[&["run", "Once upon a time", "--json"], flags].concat())["tokens"].clone();
    assert_eq!(answer(&ours).as_array().unwrap().len(), 3);
    assert_eq!(answer(&theirs), answer(&ours));
    assert_eq!(answer(&short), answer(&ours));
}

#[test]
fn shells_get_completions() {
    for (shell, words) in
        [("bash", "complete -F _gleed"), ("zsh", "#compdef gleed"), ("fish", "complete -c gleed")]
    {
        let output = gleed(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains(words), "{shell}");
        assert!(script.contains("gpu-layers") && script.contains("perplexity"), "{shell}");
    }
    assert_eq!(gleed(&["completions", "ed"]).status.code(), Some(2));
}

#[test]
fn stop_strings_end_an_answer() {
    let arguments =
        ["run", "Once upon a time", "--temperature", "0", "-n", "100", "--stop", "Lily", "--json"];
    let answer = json(&arguments);
    assert_eq!(answer["finish_reason"], "stop");
    assert!(answer["text"].as_str().unwrap().ends_with("named "), "{}", answer["text"]);
}

#[test]
fn logprobs_name_the_chosen_token_first_when_greedy() {
    let answer =
        json(&["run", "Once upon a time", "--temperature", "0", "-n", "5", "--logprobs", "3", "--json"]);
    for (i, top) in answer["top_logprobs"].as_array().unwrap().iter().enumerate() {
        assert_eq!(top.as_array().unwrap().len(), 3);
        assert_eq!(top[0]["token"], answer["tokens"][i]);
        assert_eq!(top[0]["logprob"], answer["logprobs"][i]);
    }
}

#[test]
fn tokenize_and_back() {
    let model = stories();
    let tokens = json(&["tokenize", &model, "Once upon a time", "--json"]);
    assert_eq!(tokens["tokens"], serde_json::json!([1, 9038, 2501, 263, 931]));
    let output = gleed(&["detokenize", &model, "9038", "2501", "263", "931"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Once upon a time\n");
}

#[test]
fn inspect_shows_the_file_and_the_program() {
    let model = stories();
    let whole = json(&["inspect", &model, "--program", "--tensors", "--json"]);
    assert_eq!(whole["architecture"], "llama");
    assert_eq!(whole["metadata"]["llama.block_count"], 6);
    assert!(whole["program"].as_array().unwrap().len() > 6 * 7);
    assert!(whole["tensors"][0]["kernel"].is_string());
    let text = String::from_utf8(gleed(&["inspect", &model, "--program"]).stdout).unwrap();
    assert!(text.contains("rope-kv-write") && text.contains("blk.5.ffn_down.weight"), "{text}");
    let plain = String::from_utf8(gleed(&["inspect", &model, "--plain"]).stdout).unwrap();
    assert!(plain.lines().count() > text.lines().count());
}

#[test]
fn inspect_tells_what_windows_save() {
    let model = test_data("tiny/tiny-gemma3.F32.gguf");
    let shown = String::from_utf8(gleed(&["inspect", model.to_str().unwrap()]).stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("keys and values")).unwrap();
    assert!(line.ends_with(" in f16; 5 of 6 layers keep only a window of 32 positions"), "{line}");
    let whole = String::from_utf8(gleed(&["inspect", &stories()]).stdout).unwrap();
    // 256 positions of 6 layers: keys and values of 288 halves.
    assert!(whole.contains("as long as the context: 1.8 MB in f16\n"), "{whole}");
}

#[test]
fn validate_passes_in_every_way() {
    let model = stories();
    for more in
        [&[][..], &["--arithmetic", "f32"], &["--against-rows"], &["--ops"], &["--ops", "--kv", "q8_0"]]
    {
        let report = json(&[&["validate", &model, "--json"][..], more].concat());
        assert_eq!(report["passed"], true, "{more:?}");
        // The default text fills the context, and what computed it is named.
        let all = if more.contains(&"--against-rows") { &report["rows"] } else { &report["rows_together"] };
        assert_eq!(*all, 256, "{more:?}");
        let kernels = report["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|name| name.as_str().unwrap().starts_with("attention/")), "{kernels:?}");
    }
}

#[test]
fn validate_fails_past_its_tolerance() {
    let output = gleed(&["validate", &stories(), "--prompt", "Once upon", "--tolerance", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("past the tolerance"));
}

#[test]
fn perplexity_of_a_story_is_low() {
    let text = scratch("story.txt");
    let story =
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. ";
    std::fs::write(&text, story.repeat(12)).unwrap();
    let arguments =
        ["perplexity", &stories(), text.to_str().unwrap(), "--context", "64", "--chunks", "2", "--json"];
    let report = json(&arguments);
    assert!(report["perplexity"].as_f64().unwrap() < 5.0, "{report}");
    assert_eq!(report["chunks"], 2);
    assert!(report["standard_error"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["model_file"], stories());
    assert_eq!((&report["arithmetic"], &report["kv"]), (&"q8".into(), &"f16".into()));
}

#[test]
fn reports_say_what_was_run_and_how() {
    let how =
        ["--device", "cpu", "--threads", "2", "--isa", "portable", "--arithmetic", "f32", "--kv", "q8_0"];
    let model = stories();
    let report = |model: &str| json(&[&["run", model, "Hi", "-n", "1", "--json"], &how[..]].concat());
    let (named, built_in) = (report(&model), report("stories15M"));
    assert_eq!((&named["model"], &named["model_file"]), (&model.as_str().into(), &model.as_str().into()));
    assert_eq!(built_in["model"], "stories15M");
    assert!(built_in["model_file"].is_null(), "{built_in}");
    for report in [named, built_in] {
        assert_eq!(report["device"], "portable, 2 threads");
        assert_eq!((&report["isa"], &report["threads"]), (&"portable".into(), &2.into()));
        assert_eq!((&report["arithmetic"], &report["kv"]), (&"f32".into(), &"q8_0".into()));
    }
}

#[test]
fn quantize_then_run() {
    let out = scratch("stories-q4_0.gguf");
    let report = json(&["quantize", &stories(), out.to_str().unwrap(), "--type", "q4_0", "--json"]);
    // The embeddings are the output too, and keep eight bits.
    assert!(report["bytes"].as_u64().unwrap() < 14_000_000);
    let answer =
        json(&["run", out.to_str().unwrap(), "Once upon a time", "--temperature", "0", "-n", "8", "--json"]);
    assert!(answer["text"].as_str().unwrap().contains("there was"), "{}", answer["text"]);
}

#[test]
fn synth_then_bench() {
    let out = scratch("synth.gguf");
    let report = json(&["synth", "smollm2-135m", out.to_str().unwrap(), "--type", "q4_k_m", "--json"]);
    let bytes = report["bytes"].as_u64().unwrap();
    assert!((80_000_000..120_000_000).contains(&bytes), "{bytes}");
    let report = json(&["bench", out.to_str().unwrap(), "-p", "16", "-n", "2", "-r", "1", "--json"]);
    assert_eq!(report["results"].as_array().unwrap().len(), 2);
    let output = gleed(&["run", out.to_str().unwrap(), "Hello", "-n", "4"]);
    assert!(output.status.success());
    std::fs::remove_file(out).unwrap();
}

#[test]
fn bad_input_gets_one_clear_line() {
    let model = stories();
    let folder = scratch("folder");
    std::fs::create_dir_all(&folder).unwrap();
    let zeros = scratch("zeros.gguf");
    std::fs::write(&zeros, vec![0; 4096]).unwrap();
    let truncated = scratch("truncated.gguf");
    let whole = std::fs::read(&model).unwrap();
    std::fs::write(&truncated, &whole[..whole.len() / 2]).unwrap();
    let text = |path: &PathBuf| path.to_str().unwrap().to_string();
    refused(&["run", "no-such-model", "Hello"], "no file or model named no-such-model");
    refused(&["run", &text(&folder), "Hello"], "folder");
    refused(&["run", &text(&zeros), "Hello"], "zeros.gguf");
    refused(&["run", &text(&truncated), "Hello"], "truncated");
    refused(&["run", &model], "no prompt");
    refused(&["run"], "no prompt");
    refused(&["run", "qwen3-8b"], "no file or model named qwen3-8b");
    refused(&["run", "./modle.gguf"], "no file or model named ./modle.gguf");
    refused(&["run", "./modle.gguf"], "`gleed run --prompt ./modle.gguf`");
    refused(&["run", "smolm2-135m"], "did you mean smollm2-135m?");
    refused(&["run", "hf:owner"], "hf:owner");
    refused(&["run", "qwen3-8b", "-p", "Hello"], "no file or model named qwen3-8b");
    refused(&["run", "-f", "/no/such/question"], "/no/such/question");
    refused(&["run", &model, &"word ".repeat(400)], "256");
    refused(&["run", &model, "Hello", "--context", "9999"], "256");
    refused(&["run", &model, "Hello", "--top-p", "7"], "top_p");
    refused(&["run", &model, "Hello", "--stop", ""], "stop");
    refused(&["run", &model, "Hello", "--threads", "0"], "threads");
    refused(&["chat", &model], "terminal");
    refused(&["detokenize", &model, "99999999"], "99999999");
    refused(&["perplexity", &model, "/no/such/text"], "/no/such/text");
    refused(&["synth", "gpt-17", &text(&zeros)], "gpt-17");
    refused(&["quantize", &model, &model, "--type", "q4_0"], "same file");
}

#[test]
fn with_json_an_error_is_an_object_too() {
    for (arguments, code, message) in [
        (&["run", "no-such-model", "Hello", "--json"][..], 1, "no file or model named no-such-model"),
        (&["perplexity", "stories15M", "/no/such/text", "--json"], 1, "/no/such/text: "),
        (&["bench", "stories15M", "--repetitions", "0", "--json"], 1, "--repetitions must be at least 1"),
        (&["run", "Hello", "--json", "--kv", "q3"], 2, "invalid value 'q3' for '--kv <TYPE>'"),
        (&["tokenize", "--json"], 2, "the following required arguments were not provided: <MODEL> <TEXT>"),
        (&["frobnicate", "--json"], 2, "unrecognized subcommand 'frobnicate'"),
    ] {
        let output = gleed(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = object["error"]["message"].as_str().unwrap();
        assert!(told.starts_with(message) && !told.contains('\n'), "{told:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "), "{arguments:?}");
    }
    // A check that fails has a report, and that is the one object.
    let output = gleed(&["validate", &stories(), "--prompt", "Once upon", "--tolerance", "0", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["passed"], output.status.code()), (&false.into(), Some(1)));
}

#[test]
fn a_reader_that_leaves_ends_the_answer_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gleed"))
        .args(["run", "Once upon a time", "--ignore-eos"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn unknown_names_are_usage_errors() {
    for arguments in [
        &["run", "x", "y", "--isa", "neon9"][..],
        &["run", "x", "y", "--arithmetic", "f17"],
        &["run", "x", "y", "--kv", "q3"],
        &["quantize", "x", "y", "--type", "q9"],
        &["frobnicate"],
    ] {
        let output = gleed(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
