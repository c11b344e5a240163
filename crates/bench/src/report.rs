//! The results: one for each test.

use serde::Serialize;

use crate::limits::Limits;
use crate::spread::Spread;
use crate::test::Test;
use crate::work::Work;

/// Tokens per second of one side.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// The median of all runs.
    pub median: f64,
    /// The slowest run.
    pub low: f64,
    /// The fastest run.
    pub high: f64,
    /// All runs, in order.
    pub runs: Vec<f64>,
}

impl Rates {
    /// Of at least one run.
    pub fn new(runs: Vec<f64>) -> Rates {
        let Spread { median, low, high } = Spread::of(&runs);
        Rates { median, low, high, runs }
    }
}

/// One measured test.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The name of the test.
    pub test: String,
    /// Whether it is a prompt: its tokens were computed in one go.
    pub prompt: bool,
    /// Tokens that each sequence computed.
    pub tokens: usize,
    /// Sequences that computed together.
    pub sequences: usize,
    /// Positions that each sequence held already.
    pub depth: usize,
    /// Ours: tokens per second, of all sequences together.
    #[serde(flatten)]
    pub ours: Rates,
    /// Seconds until the first token after the prompt (prompts only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_seconds: Option<f64>,
    /// Bytes of weights, keys and values that the test has to read.
    pub bytes: f64,
    /// Operations that it has to do; a multiply-add is two.
    pub operations: f64,
    /// The limit that this runs into.
    pub limit: Option<&'static str>,
    /// How much of that limit was reached.
    pub share_of_limit: Option<f64>,
    /// How much of the measured memory limit the reading comes to (generation only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// The tokens of all sequences together against those of one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_one_sequence: Option<f64>,
    /// A prompt's tokens one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_token: Option<f64>,
    /// How much faster the prompt was in one go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_gain: Option<f64>,
    /// The peer in the same rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Rates>,
    /// Our median over the peer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Why the peer was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_error: Option<String>,
}

impl Measured {
    /// What was measured of a test, against the limits.
    pub(crate) fn new(test: &Test, ours: Rates, work: &Work, limits: Option<&Limits>) -> Measured {
        let seconds = test.all_tokens() as f64 / ours.median;
        let (least, limit) = limits.map(|l| work.least_seconds(l).unwrap_or((0.0, "memory"))).unzip();
        Measured {
            test: test.name(),
            prompt: test.is_prompt(),
            tokens: test.tokens,
            sequences: test.sequences,
            depth: test.depth,
            first_token_seconds: test.is_prompt().then_some(seconds),
            bytes: work.bytes(),
            operations: work.operations(),
            limit,
            share_of_limit: least.map(|least| least / seconds),
            memory_share: limits.filter(|_| !test.is_prompt()).map(|l| work.bytes() / seconds / l.memory),
            of_one_sequence: None,
            per_token: None,
            batch_gain: None,
            peer: None,
            ratio: None,
            peer_error: None,
            ours,
        }
    }

    /// With the rate of one sequence alone.
    pub(crate) fn with_one(self, one: Option<f64>) -> Measured {
        Measured { of_one_sequence: one.map(|one| self.ours.median / one), ..self }
    }

    /// With the rate of a prompt's tokens one at a time.
    pub(crate) fn with_per_token(self, rate: Option<f64>) -> Measured {
        Measured { per_token: rate, batch_gain: rate.map(|rate| self.ours.median / rate), ..self }
    }

    /// With what the peer reached, or why it did not.
    pub(crate) fn with_peer(self, peer: Option<Rates>, peer_error: Option<String>) -> Measured {
        let ratio = peer.as_ref().map(|peer| self.ours.median / peer.median);
        Measured { peer, ratio, peer_error, ..self }
    }
}
