//! The start: from nothing to the first token, and the memory it takes, ours and the peer's in turn.
//!
//! What is timed, for both sides: from the call that starts the process to the first byte of generated
//! text on its stdout, for a prompt of four words, greedy, with the file in the system's cache. The
//! memory is the peak resident set of that process while it generates sixteen tokens.

use std::process::Command;

use anyhow::{Context, Result};
use gleed_cpu::Isa;
use serde::Serialize;
use serde_json::json;

use super::child::{self, Seen};
use super::measure::Spread;
use super::peer::Peer;
use crate::load::Options;
use crate::output::{self, Align, Table};
use crate::progress::Progress;

const PROMPT: &str = "Once upon a time";
const TOKENS: usize = 16;
/// Positions to make room for, the same on both sides.
const CONTEXT: usize = 256;

/// One side's measurements.
#[derive(Serialize)]
struct Side {
    name: &'static str,
    /// Seconds to the first token, the median.
    first_token_seconds: f64,
    runs: Vec<f64>,
    /// The largest of all runs.
    peak_memory_bytes: Option<u64>,
}

impl Side {
    fn new(name: &'static str, seen: &[Seen]) -> Side {
        let runs: Vec<f64> = seen.iter().map(|s| s.first_byte).collect();
        let peak_memory_bytes = seen.iter().filter_map(|s| s.peak_memory).max();
        Side { name, first_token_seconds: Spread::of(&runs).median, runs, peak_memory_bytes }
    }
}

/// Measures and prints. The model is given as the user named it.
pub fn run(
    model: &str,
    options: &Options,
    repetitions: usize,
    mut peer: Option<Peer>,
    as_json: bool,
) -> Result<()> {
    let ours = std::env::current_exe().context("where this program lies")?;
    let rounds = (repetitions + 1) * if peer.is_some() { 2 } else { 1 };
    let progress = Progress::new("start", rounds as u64);
    let (mut our_runs, mut peer_runs) = (Vec::new(), Vec::new());
    let mut peer_error = None;
    // The first round fills the system's file cache.
    for round in 0..=repetitions {
        let mut command = Command::new(&ours);
        command.args(arguments(model, options));
        let seen = child::watch(&mut command)?;
        progress.advance(1);
        if round > 0 {
            our_runs.push(seen);
        }
        if let (Some(peer), None) = (&mut peer, &peer_error) {
            match peer.complete(PROMPT, TOKENS, CONTEXT).and_then(|mut command| child::watch(&mut command)) {
                Ok(seen) => {
                    peer.build.said(&String::from_utf8_lossy(&seen.stderr));
                    if round > 0 {
                        peer_runs.push(seen);
                    }
                }
                Err(error) => peer_error = Some(format!("{error:#}")),
            }
            progress.advance(1);
        }
    }
    progress.finish();
    let ours = Side::new("gleed", &our_runs);
    let theirs = (peer_error.is_none() && !peer_runs.is_empty()).then(|| Side::new("peer", &peer_runs));
    let isa = options.isa.unwrap_or_else(Isa::detect);
    let warnings = peer.as_ref().map(|peer| peer.warnings(isa)).unwrap_or_default();
    if as_json {
        return output::print_json(&json!({
            "model": model,
            "prompt": PROMPT,
            "start": ours,
            "peer": peer.as_ref().map(|p| p.build.json()),
            "peer_start": theirs,
            "peer_options": peer.as_ref().map(Peer::options),
            "peer_error": peer_error,
            "warnings": warnings,
            "first_token_ratio": theirs.as_ref().map(|t| ours.first_token_seconds / t.first_token_seconds),
            "peak_memory_ratio": theirs.as_ref().and_then(|t| memory_ratio(&ours, t)),
        }));
    }
    output::note(format!("{model}: from the start of the process to the first token, file cache warm"));
    if let Some(peer) = peer.as_ref().filter(|peer| peer.build.is_known()) {
        output::note(format!("{}, without its warm-up", peer.describe()));
    }
    warnings.iter().for_each(output::warning);
    if let Some(error) = peer_error {
        output::warning(format!("the peer did not start: {error}"));
    }
    print(&ours, theirs.as_ref())
}

/// How this program is called for the same work.
fn arguments(model: &str, options: &Options) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["run", model, PROMPT, "--raw", "--temperature", "0", "--ignore-eos"].map(str::to_string).to_vec();
    let mut option = |name: &str, value: String| arguments.extend([name.to_string(), value]);
    option("--max-tokens", TOKENS.to_string());
    option("--context", CONTEXT.to_string());
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
    if options.matrix_units {
        arguments.push("--matrix-units".to_string());
    }
    arguments
}

fn memory_ratio(ours: &Side, theirs: &Side) -> Option<f64> {
    Some(ours.peak_memory_bytes? as f64 / theirs.peak_memory_bytes? as f64)
}

fn print(ours: &Side, theirs: Option<&Side>) -> Result<()> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("first token", Align::Right),
        ("min – max", Align::Right),
        ("peak memory", Align::Right),
    ]);
    for side in [Some(ours), theirs].into_iter().flatten() {
        let Spread { low, high, .. } = Spread::of(&side.runs);
        let cells = [
            side.name.to_string(),
            format!("{:.0} ms", side.first_token_seconds * 1e3),
            format!("{:.0} – {:.0}", low * 1e3, high * 1e3),
            side.peak_memory_bytes.map(output::human_bytes).unwrap_or_default(),
        ];
        table.row(cells.map(|c| (c, None)));
    }
    if let Some(theirs) = theirs {
        let cells = [
            "ratio".to_string(),
            format!("{:.2} ×", ours.first_token_seconds / theirs.first_token_seconds),
            String::new(),
            memory_ratio(ours, theirs).map(|r| format!("{r:.2} ×")).unwrap_or_default(),
        ];
        table.row(cells.map(|c| (c, None)));
    }
    output::print(table.render(output::colour(&std::io::stdout())))
}
