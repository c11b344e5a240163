//! The peer: llama.cpp's `llama-bench` on the same file with the same threads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use gleed_gguf::Gguf;
use gleed_model::KvType;
use serde::Deserialize;

use super::measure::Test;
use crate::load::Options;

/// A `llama-bench` and how to call it.
pub struct Peer {
    program: PathBuf,
    model: PathBuf,
    threads: usize,
    kv: KvType,
    /// What the peer says of itself, once it has run.
    build: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    build_commit: String,
    build_number: u64,
    #[serde(default)]
    cpu_info: String,
    #[serde(default)]
    backends: String,
    avg_ts: f64,
}

impl Peer {
    /// Checks that the program is there and that there is a file to give it.
    pub fn new(program: &Path, file: &Gguf, options: &Options) -> Result<Peer> {
        let Some(program) = find_program(program) else {
            bail!("{}: no such program; --against takes the path of llama-bench", program.display());
        };
        let model = file.parts().next().filter(|path| path.exists());
        let model = model.context("--against needs a model in a file: name one by path")?.to_path_buf();
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        Ok(Peer { program, model, threads, kv: options.kv, build: None })
    }

    /// Runs one test once and returns tokens per second.
    pub fn run(&mut self, test: &Test) -> Result<f64> {
        let (prompt, generate) = if test.is_prompt() { (test.tokens(), 0) } else { (0, test.tokens()) };
        let kv = self.kv.to_string();
        let output = Command::new(&self.program)
            .arg("-m")
            .arg(&self.model)
            .args(["-p", &prompt.to_string(), "-n", &generate.to_string(), "-d", &test.depth.to_string()])
            .args(["-t", &self.threads.to_string(), "-r", "1", "-o", "json", "-ngl", "0"])
            .args(["-ctk", &kv, "-ctv", &kv])
            .output()
            .with_context(|| self.program.display().to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
            bail!("{} failed: {last}", self.program.display());
        }
        let answers: Vec<Answer> = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} did not print the JSON of llama-bench", self.program.display()))?;
        let [answer] = &answers[..] else {
            return Err(anyhow!("{} answered {} tests, not 1", self.program.display(), answers.len()));
        };
        self.build = Some(format!(
            "llama.cpp {} ({}), {} backend on {}",
            answer.build_number, answer.build_commit, answer.backends, answer.cpu_info
        ));
        Ok(answer.avg_ts)
    }

    /// What the peer says of itself.
    pub fn description(&self) -> String {
        self.build.clone().unwrap_or_else(|| self.program.display().to_string())
    }
}

/// A path as it is; a bare name as the shell would find it.
fn find_program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
