//! Are answers the same among many others as they are alone? A set of requests is sent one after another with a cold
//! cache, and again: alone with a warm cache, all at once with a cold one and with a warm one; each answer is compared
//! byte for byte with the first.

mod cases;
mod crowd;

use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Said;
use super::client::Server;
use super::error::{Error, Failure, Result};
use crate::Progress;
use cases::{KINDS, Kind, with};
use crowd::{Answers, Sent, Strangers, alone, together};

/// The most differences that are told in full.
const MOST_DIFFERENCES: usize = 8;

/// Fields that keep a request away from what the server remembers: llama.cpp's, vLLM's, and both, since either ignores
/// the other's. A server that refuses what it does not know takes one of them, or none.
const COLD: [&[&str]; 4] = [&["cache_prompt", "cache_salt"], &["cache_prompt"], &["cache_salt"], &[]];

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct SameSettings {
    /// How many requests.
    pub requests: usize,
    /// Tokens of an answer.
    pub tokens: usize,
    /// Strangers that come and go meanwhile.
    pub strangers: usize,
    /// What all is drawn from.
    pub seed: u64,
}

/// Two answers to the same request.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The number of the request.
    pub number: usize,
    /// Its kind.
    pub kind: &'static str,
    /// The answer alone, with a cold cache.
    pub alone: String,
    /// The other one.
    pub then: String,
}

/// One way of asking, compared with asking alone with a cold cache.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The way, in a few words.
    pub way: &'static str,
    /// Requests with two whole answers.
    pub compared: usize,
    /// Those with the same text, the same calls and the same end.
    pub same: usize,
    /// Requests whose answers have log-probabilities.
    pub log_probabilities_compared: usize,
    /// Those whose log-probabilities are the same to the last digit.
    pub log_probabilities_same: usize,
    /// Requests without a second answer.
    pub failed: usize,
    /// What the first of them said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Tokens that the server found in its cache, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Strangers that left before their answer was whole.
    pub strangers_left: usize,
    /// The first texts that differ.
    pub differences: Vec<Difference>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Same {
    /// The model that was asked.
    pub model: String,
    /// Requests that were sent.
    pub requests: usize,
    /// Those that had no answer alone, and were not compared.
    pub failed_alone: usize,
    /// What the first of them said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Tokens found in the cache by the requests that were to find none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens_alone: Option<u64>,
    /// Kinds of requests that were sent.
    pub kinds: Vec<&'static str>,
    /// Kinds that the server does not take, and what it said.
    pub left_out: Vec<(&'static str, String)>,
    /// Fields with which the server was asked not to use its cache.
    pub cold_fields: Vec<&'static str>,
    /// Each other way of asking.
    pub ways: Vec<Compared>,
}

impl Same {
    /// Whether something was compared and everything was the same.
    pub fn is_all_same(&self) -> bool {
        let same = |way: &Compared| {
            way.failed == 0
                && way.compared > 0
                && way.same == way.compared
                && way.log_probabilities_same == way.log_probabilities_compared
        };
        self.failed_alone == 0 && self.ways.iter().all(same)
    }
}

/// A kind that the server takes, and how it is asked.
struct Taken {
    kind: Kind,
    spelling: usize,
    log_probabilities: bool,
}

impl Taken {
    fn body(&self, number: usize, settings: &SameSettings, model: &str) -> Value {
        let plain = self.kind.body(number, settings.seed, model, settings.tokens);
        let special = &self.kind.spellings(number)[self.spelling];
        let body = with(plain, special);
        if self.log_probabilities { with(body, &self.kind.log_probabilities()) } else { body }
    }
}

/// Compares the answers of a server.
pub fn same_bytes(
    server: &Server,
    model: &str,
    settings: &SameSettings,
    progress: Progress<'_>,
) -> Result<Same> {
    let mut left_out = Vec::new();
    let mut taken = Vec::new();
    for kind in KINDS {
        match take(server, kind, settings, model) {
            Ok(kind) => taken.push(kind),
            Err(failure) if failure.is_passing() || failure == Failure::Timeout => {
                let address = server.address().to_string();
                return Err(Error::Server { address, what: kind.name(), failure });
            }
            Err(failure) => left_out.push((kind.name(), failure.to_string())),
        }
    }
    if taken.is_empty() {
        let last = left_out.pop().map(|(_, said)| said).unwrap_or_default();
        return Err(Error::NothingToCompare { address: server.address().to_string(), last });
    }
    let cold = cold_fields(server, &taken[0], settings, model);
    let kind = |number: usize| &taken[number % taken.len()];
    let requests = |way: usize, is_cold: bool| -> Vec<Sent> {
        let request = |number: usize| {
            let mut body = kind(number).body(number, settings, model);
            if is_cold {
                body = with(body, &cold_values(cold, &format!("{way}-{number}")));
            }
            Sent { path: kind(number).kind.path(), body: body.to_string() }
        };
        (0..settings.requests).map(request).collect()
    };
    let strangers = Strangers { count: settings.strangers, model, seed: settings.seed };
    let (mut done, total) = (0, 4 * settings.requests);
    let mut step = |what: &str| {
        done += 1;
        progress(done, total, what);
    };
    let first = alone(server, &requests(0, true), &mut || step("alone, cold cache"));
    let compared = |way, answers: Answers, strangers_left| {
        let name = |number: usize| kind(number).kind.name();
        compare(way, &first, &answers, strangers_left, &name)
    };
    let mut ways = Vec::new();
    let name = "together, cold cache";
    let (answers, left) = together(server, &requests(1, true), &strangers, &mut || step(name));
    ways.push(compared(name, answers, left));
    // This also fills the cache for the last way.
    let name = "alone, warm cache";
    ways.push(compared(name, alone(server, &requests(2, false), &mut || step(name)), 0));
    let name = "together, warm cache";
    let (answers, left) = together(server, &requests(3, false), &strangers, &mut || step(name));
    ways.push(compared(name, answers, left));
    Ok(Same {
        model: model.to_string(),
        requests: settings.requests,
        failed_alone: first.iter().filter(|answer| answer.is_err()).count(),
        first_error: first_error(&first),
        cached_tokens_alone: cached_tokens(&first),
        kinds: taken.iter().map(|taken| taken.kind.name()).collect(),
        left_out,
        cold_fields: cold.to_vec(),
        ways,
    })
}

/// How the server takes a kind of request: in which spelling, and with log-probabilities or without.
fn take(
    server: &Server,
    kind: Kind,
    settings: &SameSettings,
    model: &str,
) -> std::result::Result<Taken, Failure> {
    let mut last = Failure::NotUnderstood("it is not taken in any spelling".to_string());
    for spelling in 0..kind.spellings(0).len() {
        for log_probabilities in [true, false] {
            let taken = Taken { kind, spelling, log_probabilities };
            let sent = Sent { path: kind.path(), body: taken.body(0, settings, model).to_string() };
            match alone(server, &[sent], &mut || {}).remove(0) {
                Ok(said) if kind.is_kept(&said.text) => return Ok(taken),
                Ok(_) => {
                    last = Failure::NotUnderstood(
                        "the answer is not of the form that was asked for".to_string(),
                    );
                    break;
                }
                Err(failure @ Failure::Status { .. }) if !failure.is_passing() => last = failure,
                Err(failure) => return Err(failure),
            }
        }
    }
    Err(last)
}

/// The fields by which the server leaves its cache alone, as far as it does not refuse them.
fn cold_fields(
    server: &Server,
    taken: &Taken,
    settings: &SameSettings,
    model: &str,
) -> &'static [&'static str] {
    let is_taken = |fields: &[&'static str]| {
        let body = with(taken.body(0, settings, model), &cold_values(fields, "probe"));
        server.post(taken.kind.path(), &body.to_string()).is_ok()
    };
    COLD.into_iter().find(|fields| is_taken(fields)).unwrap_or_default()
}

fn cold_values(fields: &[&'static str], salt: &str) -> Value {
    let value = |field: &&'static str| match *field {
        "cache_salt" => (field.to_string(), json!(salt)),
        field => (field.to_string(), json!(false)),
    };
    Value::Object(fields.iter().map(value).collect())
}

fn first_error(answers: &Answers) -> Option<String> {
    answers.iter().find_map(|answer| answer.as_ref().err()).map(ToString::to_string)
}

fn cached_tokens(answers: &Answers) -> Option<u64> {
    let cached = |said: &Said| said.usage.and_then(|usage| usage.cached_tokens);
    let cached: Vec<u64> = answers.iter().flatten().filter_map(cached).collect();
    (!cached.is_empty()).then(|| cached.iter().sum())
}

/// Holds the answers of one way against those that were given alone.
fn compare(
    way: &'static str,
    first: &Answers,
    then: &Answers,
    strangers_left: usize,
    kind: &dyn Fn(usize) -> &'static str,
) -> Compared {
    let mut compared = Compared {
        way,
        compared: 0,
        same: 0,
        log_probabilities_compared: 0,
        log_probabilities_same: 0,
        failed: 0,
        first_error: first_error(then),
        cached_tokens: cached_tokens(then),
        strangers_left,
        differences: Vec::new(),
    };
    for (number, pair) in first.iter().zip(then).enumerate() {
        let (Ok(first), then) = pair else { continue };
        let Ok(then) = then else {
            compared.failed += 1;
            continue;
        };
        compared.compared += 1;
        if first.text == then.text {
            compared.same += 1;
        } else if compared.differences.len() < MOST_DIFFERENCES {
            let (alone, then) = (first.text.clone(), then.text.clone());
            compared.differences.push(Difference { number, kind: kind(number), alone, then });
        }
        if !first.log_probabilities.is_null() || !then.log_probabilities.is_null() {
            compared.log_probabilities_compared += 1;
            let is_same = first.log_probabilities == then.log_probabilities;
            compared.log_probabilities_same += usize::from(is_same);
        }
    }
    compared
}
