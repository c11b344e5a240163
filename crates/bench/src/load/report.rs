//! What a run comes to: throughput of every round, times of all of them together, and ratios of two servers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::arrivals::Arrivals;
use super::percentiles::Percentiles;
use super::sender::Outcome;
use crate::report::Rates;

/// A request that was sent later than this after its moment counts as late, in seconds.
pub const LATE: f64 = 0.01;

/// One server under one load, in all rounds. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Requests of all rounds.
    pub requests: usize,
    /// Those with a whole answer; everything below is of these.
    pub completed: usize,
    /// How many of the others failed, by kind.
    pub errors: BTreeMap<String, usize>,
    /// What the first of them said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Answers with fewer tokens than were asked for.
    pub short_answers: usize,
    /// Tokens of all prompts, as the server counts them.
    pub prompt_tokens: u64,
    /// Those that the server had in its cache, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// Whole answers a second, from the first request to the end of the last answer of a round.
    pub requests_per_second: Rates,
    /// Tokens of prompts a second.
    pub input_tokens_per_second: Rates,
    /// Tokens of answers a second.
    pub output_tokens_per_second: Rates,
    /// From the sending of a request to the first text of its answer.
    pub first_token: Option<Percentiles>,
    /// From one piece of text to the next.
    pub between_tokens: Option<Percentiles>,
    /// From the first text to the end, for each token after the first: one value an answer.
    pub per_token: Option<Percentiles>,
    /// From the sending of a request to the end of its answer.
    pub whole: Option<Percentiles>,
    /// How long after its moment a request was sent, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Percentiles>,
    /// Requests that were sent more than 10 ms late.
    pub late: usize,
}

impl Loaded {
    /// Of the outcomes of each round.
    pub fn of(rounds: &[Vec<Outcome>]) -> Loaded {
        let all = || rounds.iter().flatten();
        let whole = || all().filter(|outcome| outcome.failure.is_none());
        let mut errors = BTreeMap::new();
        for failure in all().filter_map(|outcome| outcome.failure.as_ref()) {
            *errors.entry(failure.kind()).or_insert(0) += 1;
        }
        let usages = || whole().filter_map(|outcome| outcome.usage);
        let cached: Vec<u64> = usages().filter_map(|usage| usage.cached_tokens).collect();
        let rate = |amount: &dyn Fn(&Outcome) -> f64| {
            Rates::new(rounds.iter().map(|round| per_second(round, amount)).collect())
        };
        let lateness: Vec<f64> =
            all().filter_map(|outcome| Some((outcome.sent - outcome.planned?).max(0.0))).collect();
        let gaps = |outcome: &Outcome| -> Vec<f64> {
            outcome.pieces.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        Loaded {
            requests: all().count(),
            completed: whole().count(),
            errors,
            first_error: all().find_map(|outcome| outcome.failure.as_ref()).map(ToString::to_string),
            short_answers: whole().filter(|o| o.tokens() < o.asked_tokens as u64).count(),
            prompt_tokens: usages().map(|usage| usage.prompt_tokens).sum(),
            cached_tokens: (!cached.is_empty()).then(|| cached.iter().sum()),
            output_tokens: whole().map(Outcome::tokens).sum(),
            requests_per_second: rate(&|_| 1.0),
            input_tokens_per_second: rate(&|o| o.usage.map_or(0.0, |usage| usage.prompt_tokens as f64)),
            output_tokens_per_second: rate(&|o| o.tokens() as f64),
            first_token: Percentiles::of(whole().filter_map(|o| Some(o.pieces.first()? - o.sent)).collect()),
            between_tokens: Percentiles::of(whole().flat_map(gaps).collect()),
            per_token: Percentiles::of(whole().filter_map(per_token).collect()),
            whole: Percentiles::of(whole().map(|o| o.ended - o.sent).collect()),
            late: lateness.iter().filter(|late| **late > LATE).count(),
            lateness: Percentiles::of(lateness),
        }
    }
}

/// What the whole answers of a round come to, over the time from the first request to the last answer's end.
fn per_second(round: &[Outcome], amount: &dyn Fn(&Outcome) -> f64) -> f64 {
    let whole = || round.iter().filter(|outcome| outcome.failure.is_none());
    let start = round.iter().map(|outcome| outcome.sent).fold(f64::INFINITY, f64::min);
    let end = whole().map(|outcome| outcome.ended).fold(f64::NEG_INFINITY, f64::max);
    if end > start { whole().map(amount).sum::<f64>() / (end - start) } else { 0.0 }
}

/// Seconds of a token after the first, of an answer with several.
fn per_token(outcome: &Outcome) -> Option<f64> {
    let (first, last) = (outcome.pieces.first()?, outcome.pieces.last()?);
    let more = outcome.tokens().checked_sub(1).filter(|more| *more > 0)?;
    Some((last - first) / more as f64)
}

/// Our figure over the peer's: above 1 is faster for rates, below 1 for times.
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// Of tokens of answers a second.
    pub output_tokens_per_second: Option<f64>,
    /// Of the median time to the first token.
    pub first_token_p50: Option<f64>,
    /// Of its 99th percentile.
    pub first_token_p99: Option<f64>,
    /// Of the median time of a token after the first.
    pub per_token_p50: Option<f64>,
    /// Of the median time of a whole answer.
    pub whole_p50: Option<f64>,
}

/// One load, on our server and on the peer's.
#[derive(Clone, Debug, Serialize)]
pub struct Level {
    /// How requests arrived.
    pub arrivals: Arrivals,
    /// In a few words.
    pub name: String,
    /// The server.
    #[serde(flatten)]
    pub ours: Loaded,
    /// The server that it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Loaded>,
    /// How they compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratios: Option<Ratios>,
}

impl Level {
    /// Of what both sides did.
    pub fn new(arrivals: Arrivals, ours: Loaded, peer: Option<Loaded>) -> Level {
        let ratios = peer.as_ref().map(|peer| {
            let over = |ours: f64, peer: f64| (ours > 0.0 && peer > 0.0).then(|| ours / peer);
            let times = |of: fn(&Loaded) -> Option<Percentiles>, which: fn(Percentiles) -> f64| {
                over(which(of(&ours)?), which(of(peer)?))
            };
            let rate = |side: &Loaded| side.output_tokens_per_second.median;
            Ratios {
                output_tokens_per_second: over(rate(&ours), rate(peer)),
                first_token_p50: times(|side| side.first_token, |p| p.p50),
                first_token_p99: times(|side| side.first_token, |p| p.p99),
                per_token_p50: times(|side| side.per_token, |p| p.p50),
                whole_p50: times(|side| side.whole, |p| p.p50),
            }
        });
        Level { arrivals, name: arrivals.name(), ours, peer, ratios }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Usage;
    use super::super::error::Failure;
    use super::*;

    fn outcome(sent: f64, pieces: &[f64], ended: f64, failure: Option<Failure>) -> Outcome {
        let usage =
            Usage { prompt_tokens: 10, completion_tokens: pieces.len() as u64, cached_tokens: Some(4) };
        let pieces = pieces.to_vec();
        let planned = Some(sent - 0.02);
        Outcome { number: 0, asked_tokens: 3, planned, sent, pieces, ended, usage: Some(usage), failure }
    }

    #[test]
    fn figures_are_those_of_a_calculation_by_hand() {
        let rounds = [
            vec![
                outcome(1.0, &[1.5, 1.6, 1.8], 2.0, None),
                outcome(1.25, &[2.25, 2.5], 3.0, None),
                outcome(1.5, &[1.6], 9.0, Some(Failure::Timeout)),
            ],
            vec![outcome(0.0, &[0.25, 0.5, 0.75], 1.0, None)],
        ];
        let loaded = Loaded::of(&rounds);
        assert_eq!((loaded.requests, loaded.completed, loaded.short_answers), (4, 3, 1));
        assert_eq!(loaded.errors, BTreeMap::from([("timeout".to_string(), 1)]));
        assert_eq!((loaded.prompt_tokens, loaded.output_tokens, loaded.cached_tokens), (30, 8, Some(12)));
        // Two answers, five tokens and twenty of prompts in the two seconds from 1.0 to 3.0; then three in one.
        assert_eq!(loaded.requests_per_second.runs, [1.0, 1.0]);
        assert_eq!(loaded.output_tokens_per_second.runs, [2.5, 3.0]);
        assert_eq!(loaded.input_tokens_per_second.runs, [10.0, 10.0]);
        let first = loaded.first_token.unwrap();
        assert_eq!((first.count, first.p50, first.max), (3, 0.5, 1.0));
        assert_eq!(loaded.between_tokens.unwrap().count, 5);
        assert_eq!(loaded.per_token.unwrap().p50, 0.25);
        assert_eq!(loaded.whole.unwrap().max, 1.75);
        assert_eq!((loaded.late, loaded.lateness.unwrap().count), (4, 4));
    }

    #[test]
    fn ratios_are_ours_over_the_peers() {
        let ours = Loaded::of(&[vec![outcome(0.0, &[0.25, 0.5, 0.75], 1.0, None)]]);
        let peer = Loaded::of(&[vec![outcome(0.0, &[1.0, 1.5, 2.0], 4.0, None)]]);
        let level = Level::new(Arrivals::Clients(1), ours.clone(), Some(peer));
        let ratios = level.ratios.unwrap();
        assert_eq!(ratios.output_tokens_per_second, Some(4.0));
        assert_eq!((ratios.first_token_p50, ratios.per_token_p50), (Some(0.25), Some(0.5)));
        // A side without an answer has no ratio.
        let nothing = Loaded::of(&[vec![outcome(0.0, &[], 1.0, Some(Failure::Timeout))]]);
        let ratios = Level::new(Arrivals::Clients(1), ours, Some(nothing)).ratios.unwrap();
        assert_eq!((ratios.output_tokens_per_second, ratios.whole_p50), (None, None));
    }
}
