//! The results: one for each test, as a table for people and as JSON for programs.

use anyhow::Result;
use serde::Serialize;

use super::limits::Limits;
use super::measure::{Spread, Test};
use super::work::Work;
use crate::output::{self, Align, Table};

/// Tokens per second of one side.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    pub median: f64,
    pub low: f64,
    pub high: f64,
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
    pub test: String,
    /// Whether it is a prompt: its tokens were computed in one go.
    pub prompt: bool,
    pub tokens: usize,
    pub sequences: usize,
    pub depth: usize,
    /// Ours: tokens per second, of all sequences together.
    #[serde(flatten)]
    pub ours: Rates,
    /// Seconds until the first token after the prompt (prompts only).
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_seconds: Option<f64>,
    /// Bytes of weights, keys and values that the test has to read.
    pub bytes: f64,
    /// Operations that it has to do; a multiply-add is two.
    pub operations: f64,
    /// The limit that this runs into, and how much of it was reached.
    limit: Option<&'static str>,
    share_of_limit: Option<f64>,
    /// How much of the measured memory limit the reading comes to (generation only).
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_share: Option<f64>,
    /// The tokens of all sequences together against those of one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_one_sequence: Option<f64>,
    /// A prompt's tokens one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_gain: Option<f64>,
    /// The peer in the same rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Rates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_error: Option<String>,
}

impl Measured {
    /// What was measured of a test, against the limits.
    pub fn new(test: &Test, ours: Rates, work: &Work, limits: Option<&Limits>) -> Measured {
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
    pub fn with_one(self, one: Option<f64>) -> Measured {
        Measured { of_one_sequence: one.map(|one| self.ours.median / one), ..self }
    }

    /// With the rate of a prompt's tokens one at a time.
    pub fn with_per_token(self, rate: Option<f64>) -> Measured {
        Measured { per_token: rate, batch_gain: rate.map(|rate| self.ours.median / rate), ..self }
    }

    /// With what the peer reached, or why it did not.
    pub fn with_peer(self, peer: Option<Rates>, peer_error: Option<String>) -> Measured {
        let ratio = peer.as_ref().map(|peer| self.ours.median / peer.median);
        Measured { peer, ratio, peer_error, ..self }
    }
}

/// A column that is shown when a result has it: its name and what it says.
type Column = (&'static str, fn(&Measured) -> Option<String>);

/// Prints the table, with the columns that have something to say.
pub fn print(results: &[Measured]) -> Result<()> {
    let columns: [Column; 11] = [
        ("test", |r| Some(r.test.clone())),
        ("tokens/s", |r| Some(format!("{:.1}", r.ours.median))),
        ("min – max", |r| Some(range(&r.ours))),
        ("first token", |r| r.first_token_seconds.map(|s| format!("{:.0} ms", s * 1e3))),
        ("of memory", |r| r.memory_share.map(percent)),
        ("of one", |r| r.of_one_sequence.map(times)),
        ("per token", |r| r.per_token.map(|rate| format!("{rate:.1}"))),
        ("gain", |r| r.batch_gain.map(times)),
        ("peer", |r| match (&r.peer, &r.peer_error) {
            (Some(peer), _) => Some(format!("{:.1}", peer.median)),
            (None, Some(_)) => Some("failed".to_string()),
            (None, None) => None,
        }),
        ("min – max", |r| r.peer.as_ref().map(range)),
        ("ratio", |r| r.ratio.map(times)),
    ];
    let shown = columns.into_iter().filter(|(_, cell)| results.iter().any(|r| cell(r).is_some()));
    let shown: Vec<Column> = shown.collect();
    let align = |name| if name == "test" { Align::Left } else { Align::Right };
    let mut table = Table::new(&shown.iter().map(|(name, _)| (*name, align(*name))).collect::<Vec<_>>());
    for result in results {
        table.row(shown.iter().map(|(_, cell)| (cell(result).unwrap_or_default(), None)));
    }
    output::print(table.render(output::colour(&std::io::stdout())))
}

fn range(rates: &Rates) -> String {
    format!("{:.1} – {:.1}", rates.low, rates.high)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2} ×")
}
