//! What engines do at the moment and have done so far, asked when the page or a scraper looks.

use std::fmt;
use std::sync::Arc;

use gleed_engine::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::registry::Registry;

/// Name, help, value.
type Row = (&'static str, &'static str, fn(&Status) -> f64);

const GAUGES: [Row; 11] = [
    ("gleed_requests_waiting", "Requests that wait for room", |s| s.waiting as f64),
    ("gleed_requests_running", "Requests that are computed", |s| s.running as f64),
    ("gleed_batch_rows", "Rows of the last step", |s| s.last_rows as f64),
    ("gleed_pages_used", "KV pages in use, by requests and by the prefix cache", |s| s.pages_used as f64),
    ("gleed_pages_total", "KV pages there are", |s| s.pages_total as f64),
    ("gleed_pages_cached", "KV pages that only the prefix cache holds", |s| s.pages_cached as f64),
    ("gleed_cached_sequences", "Sequences in the prefix cache", |s| s.cached_sequences as f64),
    ("vllm:num_requests_waiting", "Requests that wait for room", |s| s.waiting as f64),
    ("vllm:num_requests_running", "Requests that are computed", |s| s.running as f64),
    ("vllm:kv_cache_usage_perc", "Share of KV pages that requests hold, 1 is all", held),
    ("vllm:gpu_cache_usage_perc", "The same under its former name", held),
];

/// Pages that only the prefix cache holds are free when needed, and not counted.
fn held(status: &Status) -> f64 {
    let held = status.pages_used.saturating_sub(status.pages_cached);
    if status.pages_total == 0 { 0.0 } else { held as f64 / status.pages_total as f64 }
}

const COUNTERS: [Row; 13] = [
    ("gleed_steps", "Steps of the engine", |s| s.steps as f64),
    ("gleed_rows", "Rows of all steps", |s| s.rows as f64),
    ("gleed_step_seconds", "Time spent in steps", |s| s.step_seconds),
    ("gleed_cached_tokens", "Tokens of prompts that the prefix cache had", |s| s.cached_tokens as f64),
    ("gleed_guessed_tokens", "Guessed tokens that were checked", |s| s.guessed_tokens as f64),
    ("gleed_accepted_tokens", "Guessed tokens that were right", |s| s.accepted_tokens as f64),
    ("vllm:prompt_tokens", "Tokens of prompts", |s| s.prompt_tokens as f64),
    ("vllm:generation_tokens", "Tokens of answers", |s| s.generated_tokens as f64),
    ("vllm:prefix_cache_queries", "Tokens of prompts that the prefix cache was asked for", |s| {
        s.prompt_tokens as f64
    }),
    ("vllm:prefix_cache_hits", "Tokens of prompts that it had", |s| s.cached_tokens as f64),
    ("vllm:num_preemptions", "Requests that lost their room and were computed again", |s| {
        s.preemptions as f64
    }),
    ("vllm:spec_decode_num_draft_tokens", "Guessed tokens that were checked", |s| s.guessed_tokens as f64),
    ("vllm:spec_decode_num_accepted_tokens", "Guessed tokens that were right", |s| s.accepted_tokens as f64),
];

/// The engines of all models that are loaded.
pub struct Engines(pub Arc<Registry>);

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engines")
    }
}

impl Collector for Engines {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let loaded = |entry: &Arc<crate::registry::Entry>| {
            let labels = [("model_name", entry.offer.id.clone())];
            entry.peek().map(|model| (labels, model.engine.status()))
        };
        let statuses: Vec<([(&str, String); 1], Status)> =
            self.0.entries().iter().filter_map(loaded).collect();
        let kinds = [(MetricType::Gauge, &GAUGES[..]), (MetricType::Counter, &COUNTERS[..])];
        for (kind, rows) in kinds {
            for (name, help, value) in rows {
                let mut family = encoder.encode_descriptor(name, help, None, kind)?;
                for (labels, status) in &statuses {
                    let metric = family.encode_family(labels)?;
                    match kind {
                        MetricType::Gauge => ConstGauge::new(value(status)).encode(metric)?,
                        _ => ConstCounter::new(value(status)).encode(metric)?,
                    }
                }
            }
        }
        let mut family = encoder.encode_descriptor(
            "gleed_model_loaded",
            "Whether a model is loaded",
            None,
            MetricType::Gauge,
        )?;
        for entry in self.0.entries() {
            let labels = [("model_name", entry.offer.id.clone())];
            ConstGauge::new(i64::from(entry.peek().is_some())).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
