//! The peer: llama.cpp's tools on the same file with the same threads. `llama-bench` measures prompts and
//! decoding; `llama-batched-bench` and `llama-completion`, found beside it, measure sequences that decode
//! together and the start.

mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

use gleed_cpu::Isa;
use gleed_model::KvType;
use serde::Deserialize;
use serde_json::Value;

use crate::child::finish;
use crate::test::Test;
use crate::{Error, Result};
use build::{Build, Units};

/// The peer's tools and how to call them.
pub struct Peer {
    bench: PathBuf,
    model: PathBuf,
    threads: usize,
    kv: KvType,
    /// What the user wants every tool to be given.
    extra: Vec<String>,
    /// What is known of the peer, once it has run.
    pub(crate) build: Build,
}

/// What llama-bench prints for a test.
#[derive(Deserialize)]
struct Answer {
    build_commit: String,
    build_number: u64,
    n_threads: usize,
    avg_ts: f64,
}

/// What llama-batched-bench prints for a test.
#[derive(Deserialize)]
struct BatchedAnswer {
    n_threads: usize,
    speed_tg: f64,
}

impl Peer {
    /// Checks that the program is there.
    pub fn new(bench: &Path, model: &Path, threads: usize, kv: KvType, extra: &str) -> Result<Peer> {
        let Some(bench) = find_program(bench) else {
            return Err(Error::NoPeer { path: bench.to_path_buf() });
        };
        let extra = extra.split_whitespace().map(str::to_string).collect();
        Ok(Peer { bench, model: model.to_path_buf(), threads, kv, extra, build: Build::default() })
    }

    /// Runs one test once and returns tokens per second, of all sequences together.
    pub fn run(&mut self, test: &Test) -> Result<f64> {
        if test.sequences > 1 { self.run_together(test) } else { self.run_alone(test) }
    }

    fn run_alone(&mut self, test: &Test) -> Result<f64> {
        let (prompt, generate) = if test.is_prompt() { (test.tokens, 0) } else { (0, test.tokens) };
        let mut command = self.command(&self.bench);
        command
            .args(["-p", &prompt.to_string(), "-n", &generate.to_string(), "-d", &test.depth.to_string()])
            .args(["-r", "1", "-o", "json", "-ngl", "0"]);
        let output = finish(&mut command)?;
        let answers: Vec<Answer> = serde_json::from_slice(&output.stdout)
            .map_err(|_| unexpected(&self.bench, "did not print the JSON of llama-bench"))?;
        let [answer] = &answers[..] else {
            return Err(unexpected(&self.bench, format!("answered {} tests, not 1", answers.len())));
        };
        self.build.named(answer.build_number, &answer.build_commit);
        self.build.said(&String::from_utf8_lossy(&output.stderr));
        self.build.threads = Some(answer.n_threads);
        rate(answer.avg_ts, &self.bench)
    }

    fn run_together(&mut self, test: &Test) -> Result<f64> {
        let tool = self.beside("llama-batched-bench")?;
        // It has no sequences without a prompt: one token stands for none.
        let depth = test.depth.max(1);
        let positions = test.sequences * (depth + test.tokens);
        let mut command = self.command(&tool);
        command
            .args(["-c", &positions.to_string(), "-npl", &test.sequences.to_string()])
            .args(["-npp", &depth.to_string(), "-ntg", &test.tokens.to_string()])
            .args(["--output-format", "jsonl", "-ngl", "0"]);
        let output = finish(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = text.lines().find_map(|line| serde_json::from_str::<BatchedAnswer>(line).ok());
        let answer =
            answer.ok_or_else(|| unexpected(&tool, "did not print the JSON of llama-batched-bench"))?;
        self.build.said(&String::from_utf8_lossy(&output.stderr));
        self.build.threads = Some(answer.n_threads);
        rate(answer.speed_tg, &tool)
    }

    /// The command that continues a prompt, its first token as early as it can: without the warm-up and
    /// without the prompt's echo.
    pub(crate) fn complete(&self, prompt: &str, tokens: usize, context: usize) -> Result<Command> {
        let tool = self.beside("llama-completion")?;
        let mut command = self.command(&tool);
        command.args(["-p", prompt, "-n", &tokens.to_string(), "-c", &context.to_string()]).args([
            "--temp",
            "0",
            "--ignore-eos",
            "-no-cnv",
            "--no-warmup",
            "--no-display-prompt",
            "-ngl",
            "0",
        ]);
        Ok(command)
    }

    /// Finds out which instructions the peer uses where its name does not tell: llama-completion says so.
    pub fn look_closer(&mut self) {
        if self.build.units.is_some() || !self.build.is_known() {
            return;
        }
        if let Ok(mut command) = self.complete("a", 1, 64)
            && let Ok(output) = command.output()
        {
            self.build.said(&String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Lines about what makes the comparison unfair, or might; none of a peer that never ran.
    pub fn warnings(&self, isa: Isa) -> Vec<String> {
        if !self.build.is_known() {
            return Vec::new();
        }
        let mut warnings = self.build.warnings(Units::of_isa(isa), isa.name());
        if let Some(threads) = self.build.threads.filter(|threads| *threads != self.threads) {
            warnings.push(format!("the peer ran with {threads} threads, ours with {}", self.threads));
        }
        warnings
    }

    /// What it was built with, for programs.
    pub fn json(&self) -> Value {
        self.build.json()
    }

    /// One line about the peer and how it was called; none of a peer that never ran.
    pub fn describe(&self) -> Option<String> {
        if !self.build.is_known() {
            return None;
        }
        let options = self.options();
        let why = match options.iter().any(|o| o == "-fa") && self.kv == KvType::Q8_0 {
            true => " (it keeps quantised values only with flash attention)",
            false => "",
        };
        Some(format!("peer: {}, {}{why}", self.build, options.join(" ")))
    }

    /// The options that all of the peer's tools get.
    pub fn options(&self) -> Vec<String> {
        let kv = self.kv.to_string();
        let mut options: Vec<String> = ["-ctk", &kv, "-ctv", &kv].map(str::to_string).to_vec();
        // llama.cpp keeps values quantised only for its flash attention.
        if self.kv == KvType::Q8_0 && !self.extra.iter().any(|e| e == "-fa" || e == "--flash-attn") {
            options.extend(["-fa".to_string(), "on".to_string()]);
        }
        options.extend(self.extra.iter().cloned());
        options
    }

    /// What all tools take.
    fn command(&self, tool: &Path) -> Command {
        let mut command = Command::new(tool);
        command.arg("-m").arg(&self.model).args(["-t", &self.threads.to_string()]).args(self.options());
        command
    }

    /// Another of the peer's tools.
    fn beside(&self, tool: &'static str) -> Result<PathBuf> {
        let path = self.bench.with_file_name(tool);
        if !path.is_file() {
            return Err(Error::NoTool { tool, bench: self.bench.clone() });
        }
        Ok(path)
    }
}

fn unexpected(tool: &Path, what: impl Into<String>) -> Error {
    Error::Output { program: tool.display().to_string(), what: what.into() }
}

/// A rate that can be one.
fn rate(rate: f64, tool: &Path) -> Result<f64> {
    if !(rate.is_finite() && rate > 0.0) {
        return Err(unexpected(tool, format!("measured {rate} tokens per second")));
    }
    Ok(rate)
}

/// A path as it is; a bare name as the shell would find it.
fn find_program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
