//! The start: from nothing to the first token, and the memory it takes, ours and the peer's in turn.
//!
//! What is timed, for both sides: from the call that starts the process to the first byte of generated
//! text on its stdout, for a prompt of four words, greedy, with the file in the system's cache. The
//! memory is the peak resident set of that process while it generates sixteen tokens.

use std::process::Command;

use serde::Serialize;

use crate::child::{self, Seen};
use crate::peer::Peer;
use crate::spread::Spread;
use crate::{Progress, Result};

/// What both sides continue.
pub const PROMPT: &str = "Once upon a time";
/// Tokens that both sides generate.
pub const TOKENS: usize = 16;
/// Positions to make room for, the same on both sides.
pub const CONTEXT: usize = 256;

/// One side's measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Seconds to the first token, the median.
    pub first_token_seconds: f64,
    /// Those of all runs.
    pub runs: Vec<f64>,
    /// The largest of all runs.
    pub peak_memory_bytes: Option<u64>,
}

/// Both sides' measurements.
#[derive(Clone, Debug)]
pub struct Start {
    /// Ours.
    pub ours: Side,
    /// The peer's.
    pub peer: Option<Side>,
    /// Why the peer was not measured.
    pub peer_error: Option<String>,
}

impl Side {
    fn new(seen: &[Seen]) -> Side {
        let runs: Vec<f64> = seen.iter().map(|s| s.first_byte).collect();
        let peak_memory_bytes = seen.iter().filter_map(|s| s.peak_memory).max();
        Side { first_token_seconds: Spread::of(&runs).median, runs, peak_memory_bytes }
    }
}

impl Start {
    /// Our seconds to the first token over the peer's.
    pub fn first_token_ratio(&self) -> Option<f64> {
        Some(self.ours.first_token_seconds / self.peer.as_ref()?.first_token_seconds)
    }

    /// Our peak of memory over the peer's.
    pub fn peak_memory_ratio(&self) -> Option<f64> {
        Some(self.ours.peak_memory_bytes? as f64 / self.peer.as_ref()?.peak_memory_bytes? as f64)
    }
}

/// Measures. `ours` makes the command that continues [`PROMPT`] by [`TOKENS`] tokens with room for [`CONTEXT`]
/// positions.
pub fn start(
    ours: &dyn Fn() -> Command,
    repetitions: usize,
    mut peer: Option<&mut Peer>,
    progress: Progress<'_>,
) -> Result<Start> {
    let total = (repetitions + 1) * if peer.is_some() { 2 } else { 1 };
    let mut done = 0;
    let (mut our_runs, mut peer_runs) = (Vec::new(), Vec::new());
    let mut peer_error = None;
    // The first round fills the system's file cache.
    for round in 0..=repetitions {
        progress(done, total, "");
        let seen = child::watch(&mut ours())?;
        if round > 0 {
            our_runs.push(seen);
        }
        done += 1;
        progress(done, total, "");
        if let (Some(peer), None) = (&mut peer, &peer_error) {
            match peer.complete(PROMPT, TOKENS, CONTEXT).and_then(|mut command| child::watch(&mut command)) {
                Ok(seen) => {
                    peer.build.said(&String::from_utf8_lossy(&seen.stderr));
                    if round > 0 {
                        peer_runs.push(seen);
                    }
                }
                Err(error) => peer_error = Some(error.to_string()),
            }
            done += 1;
        }
    }
    let measured = peer_error.is_none() && !peer_runs.is_empty();
    Ok(Start { ours: Side::new(&our_runs), peer: measured.then(|| Side::new(&peer_runs)), peer_error })
}
