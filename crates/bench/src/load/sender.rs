//! Sends the requests of a run and takes the times of their answers. A thread with a blocking socket for every open
//! request: for some hundred of them that is simple, and a moment is taken when the bytes are read, not when a
//! runtime gets to it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::answer::{Usage, piece};
use super::arrivals::{Arrivals, MOST_OPEN};
use super::client::Server;
use super::error::Failure;
use super::probe::Known;
use super::trace::Trace;
use super::workload::{Ask, Manner, Workload};

/// Stack of a thread that waits for one answer, in bytes; encrypted connections need most of it.
const STACK: usize = 1 << 20;

/// How long a client rests after a request that failed, so that a server that is gone is not asked without end.
const REST: Duration = Duration::from_millis(50);

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// They are made.
    Made(Workload),
    /// They were recorded.
    Trace(Trace),
}

impl Source {
    /// The request of a number, and its moment where it has one of its own.
    pub fn ask(&self, number: usize, known: &Known) -> Option<(Option<f64>, Ask)> {
        match self {
            Source::Made(workload) => Some((None, workload.ask(number, known))),
            Source::Trace(trace) => trace.ask(number, known).map(|(at, ask)| (Some(at), ask)),
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Source::Made(workload) => workload.seed,
            Source::Trace(_) => 0,
        }
    }
}

/// When a run ends: no request is sent after either; those that are open are waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// This many requests.
    pub requests: usize,
    /// This many seconds.
    pub seconds: f64,
}

/// What became of a request. All times are in seconds from the start of the run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its number in the source.
    pub number: usize,
    /// Tokens that the answer should have had.
    pub asked_tokens: usize,
    /// When it should have been sent, in an open loop.
    pub planned: Option<f64>,
    /// When it was sent.
    pub sent: f64,
    /// When each piece of text came.
    pub pieces: Vec<f64>,
    /// When the answer was whole, or failed.
    pub ended: f64,
    /// What the server says that it took.
    pub usage: Option<Usage>,
    /// Why there is no whole answer.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Tokens of the answer: what the server counts, or the pieces where it does not.
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(self.pieces.len() as u64, |usage| usage.completion_tokens)
    }
}

/// One server under one load.
pub struct Run<'a> {
    /// The server.
    pub server: &'a Server,
    /// What is known of it.
    pub known: &'a Known,
    /// How requests are put.
    pub manner: Manner,
    /// What they ask.
    pub source: &'a Source,
    /// When they are sent.
    pub arrivals: Arrivals,
    /// When that ends.
    pub until: Until,
}

impl Run<'_> {
    /// Sends everything and waits for all answers, which come in the order in which they ended.
    pub fn outcomes(&self, each: &mut dyn FnMut(&Outcome)) -> Vec<Outcome> {
        let (sender, receiver) = channel();
        let start = Instant::now();
        let mut outcomes = Vec::new();
        std::thread::scope(|scope| {
            // The sender is dropped with the thread, which says that nothing more comes.
            let _ = Builder::new().spawn_scoped(scope, move || match self.arrivals {
                Arrivals::Clients(clients) => self.closed(clients, start, &sender),
                _ => self.open(start, &sender),
            });
            for outcome in receiver {
                each(&outcome);
                outcomes.push(outcome);
            }
        });
        outcomes
    }

    /// Each request at its moment, whatever has become of those before it.
    fn open(&self, start: Instant, sender: &Sender<Outcome>) {
        let open = AtomicUsize::new(0);
        let moments = self.arrivals.moments(self.source.seed());
        let mut moments = moments.chain(std::iter::repeat(0.0));
        std::thread::scope(|scope| {
            for number in 0..self.until.requests {
                let at_rate = moments.next().unwrap_or_default();
                let Some((at, ask)) = self.source.ask(number, self.known) else { break };
                let planned = at.unwrap_or(at_rate);
                if planned > self.until.seconds {
                    break;
                }
                let body = self.manner.body(&ask, self.known);
                std::thread::sleep(Duration::from_secs_f64(planned).saturating_sub(start.elapsed()));
                let sent = start.elapsed().as_secs_f64();
                let not_sent = || Outcome {
                    number,
                    asked_tokens: ask.output_tokens,
                    planned: Some(planned),
                    sent,
                    pieces: Vec::new(),
                    ended: sent,
                    usage: None,
                    failure: Some(Failure::NotSent),
                };
                if open.load(Ordering::Relaxed) >= MOST_OPEN {
                    let _ = sender.send(not_sent());
                    continue;
                }
                open.fetch_add(1, Ordering::Relaxed);
                let (open, tokens) = (&open, ask.output_tokens);
                let spawned = Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
                    let outcome = self.one(number, tokens, Some(planned), &body, start);
                    open.fetch_sub(1, Ordering::Relaxed);
                    let _ = sender.send(outcome);
                });
                if spawned.is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                    let _ = sender.send(not_sent());
                }
            }
        });
    }

    /// Clients that send when they have their answer.
    fn closed(&self, clients: usize, start: Instant, sender: &Sender<Outcome>) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..clients.min(MOST_OPEN) {
                // A client less is seen in the report: it has fewer open requests, not other answers.
                let _ = Builder::new().stack_size(STACK).spawn_scoped(scope, || {
                    while start.elapsed().as_secs_f64() < self.until.seconds {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.until.requests {
                            break;
                        }
                        let Some((_, ask)) = self.source.ask(number, self.known) else { break };
                        let body = self.manner.body(&ask, self.known);
                        let outcome = self.one(number, ask.output_tokens, None, &body, start);
                        let failed = outcome.failure.is_some();
                        let _ = sender.send(outcome);
                        if failed {
                            std::thread::sleep(REST);
                        }
                    }
                });
            }
        });
    }

    /// Sends one request and reads its answer to the end.
    fn one(
        &self,
        number: usize,
        asked_tokens: usize,
        planned: Option<f64>,
        body: &str,
        start: Instant,
    ) -> Outcome {
        let sent = start.elapsed().as_secs_f64();
        let (mut pieces, mut usage, mut is_whole) = (Vec::new(), None, false);
        let streamed = self.server.stream(self.manner.path(), body, &mut |now, data| {
            if data == "[DONE]" {
                is_whole = true;
                return Ok(ControlFlow::Break(()));
            }
            let piece = piece(data)?;
            if piece.has_text {
                pieces.push(now.duration_since(start).as_secs_f64());
            }
            is_whole |= piece.finishes;
            usage = piece.usage.or(usage);
            Ok(ControlFlow::Continue(()))
        });
        let failure = match streamed {
            Err(failure) => Some(failure),
            Ok(_) if !is_whole => Some(Failure::CutOff("the stream ended before the answer did".to_string())),
            Ok(_) => None,
        };
        let ended = start.elapsed().as_secs_f64();
        Outcome { number, asked_tokens, planned, sent, pieces, ended, usage, failure }
    }
}
