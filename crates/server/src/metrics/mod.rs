//! What a server tells Prometheus, under names of its own and under those that vLLM's routers and dashboards read.
//!
//! What requests took is counted here as they go; what engines do is asked of them when the page or a scraper looks ([`Engines`]).

mod engines;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gleed_engine::Finish;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Prometheus;

use crate::registry::Registry;
use engines::Engines;

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Seconds, from a millisecond to ten minutes.
const SECONDS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    600.0,
];

/// Tokens of a prompt or an answer.
const TOKENS: [f64; 12] =
    [1.0, 4.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 8192.0, 32768.0, 131072.0];

/// All that is counted.
pub struct Metrics {
    prometheus: Prometheus,
    requests: Family<Labels, Counter>,
    request_seconds: Histograms,
    first_token: Histograms,
    between_tokens: Histograms,
    whole: Histograms,
    queue: Histograms,
    prefill: Histograms,
    decode: Histograms,
    prompt: Histograms,
    generation: Histograms,
    success: Family<Labels, Counter>,
    recent: Arc<Mutex<Recent>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What happened since the last look, for the status page.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Recent {
    /// Requests that ended, of any kind.
    pub requests: u64,
    /// Of these, those that the server could not answer.
    pub failures: u64,
    /// Times to first tokens: how many, and their sum in seconds.
    pub first_tokens: (u64, f64),
    /// Times between tokens: the same.
    pub between_tokens: (u64, f64),
}

impl Metrics {
    /// Nothing is counted yet.
    pub fn new(models: Arc<Registry>) -> Metrics {
        let mut prometheus = Prometheus::default();
        prometheus.register_collector(Box::new(Engines(models)));
        let seconds = || Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        let tokens = || Family::new_with_constructor((|| Histogram::new(TOKENS)) as fn() -> Histogram);
        let metrics = Metrics {
            requests: Family::default(),
            request_seconds: seconds(),
            first_token: seconds(),
            between_tokens: seconds(),
            whole: seconds(),
            queue: seconds(),
            prefill: seconds(),
            decode: seconds(),
            prompt: tokens(),
            generation: tokens(),
            success: Family::default(),
            recent: Arc::default(),
            prometheus: Prometheus::default(),
        };
        prometheus.register("gleed_requests", "Requests by route and status", metrics.requests.clone());
        prometheus.register("vllm:request_success", "Answers by how they ended", metrics.success.clone());
        let histograms = [
            ("gleed_request_seconds", "How long requests took, by route", &metrics.request_seconds),
            ("vllm:time_to_first_token_seconds", "From a request to its first token", &metrics.first_token),
            ("vllm:inter_token_latency_seconds", "Between two tokens of an answer", &metrics.between_tokens),
            (
                "vllm:time_per_output_token_seconds",
                "Between two tokens of an answer",
                &metrics.between_tokens,
            ),
            ("vllm:e2e_request_latency_seconds", "From a request to the end of its answer", &metrics.whole),
            ("vllm:request_queue_time_seconds", "How long requests waited for room", &metrics.queue),
            ("vllm:request_prefill_time_seconds", "How long prompts took", &metrics.prefill),
            (
                "vllm:request_decode_time_seconds",
                "How long answers took after their prompts",
                &metrics.decode,
            ),
            ("vllm:request_prompt_tokens", "Tokens of prompts", &metrics.prompt),
            ("vllm:request_generation_tokens", "Tokens of answers", &metrics.generation),
        ];
        for (name, help, histogram) in histograms {
            prometheus.register(name, help, histogram.clone());
        }
        Metrics { prometheus, ..metrics }
    }

    /// Counts a request that is over.
    pub fn request(&self, route: &str, status: &str, seconds: f64) {
        let route = ("route", route.to_string());
        self.requests.get_or_create(&vec![route.clone(), ("status", status.to_string())]).inc();
        self.request_seconds.get_or_create(&vec![route]).observe(seconds);
        let mut recent = lock(&self.recent);
        recent.requests += 1;
        recent.failures += u64::from(status.starts_with('5'));
    }

    /// What measures one answer of a model.
    pub fn meter(&self, model: &str, asked: Instant) -> Meter {
        let labels = vec![("model_name", model.to_string())];
        let of = |histograms: &Histograms| histograms.get_or_create(&labels).clone();
        Meter {
            asked,
            last: None,
            first_token: of(&self.first_token),
            between_tokens: of(&self.between_tokens),
            whole: of(&self.whole),
            queue: of(&self.queue),
            prefill: of(&self.prefill),
            decode: of(&self.decode),
            prompt: of(&self.prompt),
            generation: of(&self.generation),
            success: self.success.clone(),
            labels,
            recent: self.recent.clone(),
        }
    }

    /// What happened since this was last asked.
    pub fn take_recent(&self) -> Recent {
        std::mem::take(&mut *lock(&self.recent))
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.prometheus)?;
        Ok(text)
    }
}

/// Measures one answer.
pub struct Meter {
    asked: Instant,
    /// When the last token came.
    last: Option<Instant>,
    first_token: Histogram,
    between_tokens: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt: Histogram,
    generation: Histogram,
    success: Family<Labels, Counter>,
    labels: Labels,
    recent: Arc<Mutex<Recent>>,
}

impl Meter {
    /// The request was given room.
    pub fn started(&mut self) {
        self.queue.observe(self.asked.elapsed().as_secs_f64());
    }

    /// A token came.
    pub fn token(&mut self, now: Instant) {
        let seconds = (now - self.last.unwrap_or(self.asked)).as_secs_f64();
        let mut recent = lock(&self.recent);
        let (histogram, (count, sum)) = match self.last {
            None => (&self.first_token, &mut recent.first_tokens),
            Some(_) => (&self.between_tokens, &mut recent.between_tokens),
        };
        *count += 1;
        *sum += seconds;
        drop(recent);
        histogram.observe(seconds);
        self.last = Some(now);
    }

    /// The answer is complete.
    pub fn finished(&mut self, finish: &Finish) {
        self.whole.observe(self.asked.elapsed().as_secs_f64());
        self.prefill.observe(finish.timings.prompt_seconds);
        self.decode.observe(finish.timings.generation_seconds);
        self.prompt.observe(finish.prompt_tokens as f64);
        self.generation.observe(finish.generated_tokens as f64);
        let mut labels = self.labels.clone();
        labels.push(("finished_reason", finish.reason.name().to_string()));
        self.success.get_or_create(&labels).inc();
    }
}

fn lock(recent: &Mutex<Recent>) -> MutexGuard<'_, Recent> {
    recent.lock().unwrap_or_else(PoisonError::into_inner)
}
