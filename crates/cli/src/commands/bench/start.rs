//! `--start`: from nothing to the first token, and the memory it takes, ours and the peer's in turn.

use std::process::Command;

use anyhow::{Context, Result};
use gleed_bench::{Peer, Start};
use gleed_cpu::Isa;
use serde_json::json;

use super::{tables, with_bar};
use crate::load::Options;
use crate::output;

/// Measures and prints. The model is given as the user named it.
pub fn run(
    model: &str,
    options: &Options,
    repetitions: usize,
    mut peer: Option<&mut Peer>,
    as_json: bool,
) -> Result<()> {
    let program = std::env::current_exe().context("where this program lies")?;
    let ours = || {
        let mut command = Command::new(&program);
        command.args(arguments(model, options));
        command
    };
    let start =
        with_bar("start", |progress| gleed_bench::start(&ours, repetitions, peer.as_deref_mut(), progress))?;
    let peer = peer.as_deref();
    let isa = options.isa.unwrap_or_else(Isa::detect);
    let warnings = peer.map(|peer| peer.warnings(isa)).unwrap_or_default();
    if as_json {
        let Start { ours, peer: theirs, peer_error } = &start;
        return output::print_json(&json!({
            "model": model,
            "prompt": gleed_bench::PROMPT,
            "start": ours,
            "peer": peer.map(Peer::json),
            "peer_start": theirs,
            "peer_options": peer.map(Peer::options),
            "peer_error": peer_error,
            "warnings": warnings,
            "first_token_ratio": start.first_token_ratio(),
            "peak_memory_ratio": start.peak_memory_ratio(),
        }));
    }
    output::note(format!("{model}: from the start of the process to the first token, file cache warm"));
    if let Some(described) = peer.and_then(Peer::describe) {
        output::note(format!("{described}, without its warm-up"));
    }
    warnings.iter().for_each(output::warning);
    if let Some(error) = &start.peer_error {
        output::warning(format!("the peer did not start: {error}"));
    }
    tables::start(&start)
}

/// How this program is called for the same work.
fn arguments(model: &str, options: &Options) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["run", model, gleed_bench::PROMPT, "--raw", "--temperature", "0", "--ignore-eos"]
            .map(str::to_string)
            .to_vec();
    let mut option = |name: &str, value: String| arguments.extend([name.to_string(), value]);
    option("--max-tokens", gleed_bench::TOKENS.to_string());
    option("--context", gleed_bench::CONTEXT.to_string());
    option("--device", options.device.to_string());
    if let Some(layers) = options.gpu_layers {
        option("--gpu-layers", layers.to_string());
    }
    if let Some(arithmetic) = options.arithmetic {
        option("--arithmetic", arithmetic.to_string());
    }
    option("--kv", options.kv.to_string());
    if let Some(threads) = options.threads {
        option("--threads", threads.to_string());
    }
    if let Some(isa) = options.isa {
        option("--isa", isa.to_string());
    }
    options.lora.iter().for_each(|lora| option("--lora", lora.to_string()));
    arguments
}
