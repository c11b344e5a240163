//! The last minutes, second by second, for the status page.
//!
//! `GET /status.json` tells what every model does now and has samples of the last [`KEPT`] seconds; with `?since=TIME`
//! only those that are newer, for a page that asks again and again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use gleed_engine::Status;
use serde_json::{Value, json};

use crate::App;
use crate::ids;
use crate::metrics::Recent;
use crate::registry::Entry;

/// Seconds that are kept.
pub const KEPT: usize = 600;

/// Samples of all models together, one a second.
#[derive(Default)]
pub struct History(Mutex<Samples>);

#[derive(Default)]
struct Samples {
    samples: VecDeque<Sample>,
    /// The sums when the last sample was taken.
    last: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    steps: u64,
    rows: u64,
    prompt: u64,
    cached: u64,
    generated: u64,
}

struct Sample {
    /// Unix time.
    time: u64,
    value: Value,
}

impl History {
    /// Takes a sample of the last second.
    pub fn sample(&self, app: &App) {
        let Recent { requests, failures, first_tokens, between_tokens } = app.metrics.take_recent();
        let statuses: Vec<Status> =
            app.models.entries().iter().filter_map(|entry| Some(entry.peek()?.engine.status())).collect();
        let sum = |of: fn(&Status) -> u64| statuses.iter().map(of).sum::<u64>();
        let sums = Sums {
            steps: sum(|s| s.steps),
            rows: sum(|s| s.rows),
            prompt: sum(|s| s.prompt_tokens),
            cached: sum(|s| s.cached_tokens),
            generated: sum(|s| s.generated_tokens),
        };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut samples.last, sums);
        // A model that was unloaded takes its sums along.
        let more = |of: fn(&Sums) -> u64| of(&sums).saturating_sub(of(&last));
        let mean = |(count, sum): (u64, f64)| (count > 0).then(|| sum / count as f64);
        let steps = more(|s| s.steps);
        let value = json!({
            "time": ids::now(),
            "running": sum(|s| s.running as u64),
            "waiting": sum(|s| s.waiting as u64),
            "pages_used": sum(|s| s.pages_used as u64),
            "pages_cached": sum(|s| s.pages_cached as u64),
            "pages_total": sum(|s| s.pages_total as u64),
            "generated_tokens": more(|s| s.generated),
            "prompt_tokens": more(|s| s.prompt),
            "cached_tokens": more(|s| s.cached),
            "steps": steps,
            "rows_per_step": mean((steps, more(|s| s.rows) as f64)),
            "first_token_seconds": mean(first_tokens),
            "between_tokens_seconds": mean(between_tokens),
            "requests": requests,
            "failures": failures,
        });
        samples.samples.push_back(Sample { time: ids::now(), value });
        while samples.samples.len() > KEPT {
            samples.samples.pop_front();
        }
    }

    /// The samples after a time.
    fn since(&self, time: u64) -> Vec<Value> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples
            .samples
            .iter()
            .filter(|sample| sample.time > time)
            .map(|sample| sample.value.clone())
            .collect()
    }
}

/// Everything that the status page shows.
pub fn report(app: &App, since: u64) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": app.models.started(),
        "now": ids::now(),
        "closing": app.is_closing(),
        "models": app.models.entries().iter().map(|entry| model(entry)).collect::<Vec<_>>(),
        "samples": app.history.since(since),
    })
}

fn model(entry: &Entry) -> Value {
    let names = json!({ "id": entry.offer.id, "aliases": entry.offer.aliases });
    let Some(model) = entry.peek() else {
        return merged(names, json!({ "loaded": false }));
    };
    let status = model.engine.status();
    let facts = json!({
        "loaded": true,
        "about": model.about,
        "context": model.context,
        "gives_embeddings": model.engine.gives_embeddings(),
        "waiting": status.waiting,
        "running": status.running,
        "pages_used": status.pages_used,
        "pages_cached": status.pages_cached,
        "pages_total": status.pages_total,
        "cached_sequences": status.cached_sequences,
        "last_rows": status.last_rows,
        "steps": status.steps,
        "rows": status.rows,
        "step_seconds": status.step_seconds,
        "prompt_tokens": status.prompt_tokens,
        "cached_tokens": status.cached_tokens,
        "generated_tokens": status.generated_tokens,
        "preemptions": status.preemptions,
        "guessed_tokens": status.guessed_tokens,
        "accepted_tokens": status.accepted_tokens,
    });
    merged(names, facts)
}

fn merged(first: Value, second: Value) -> Value {
    let objects = [first, second].into_iter().filter_map(|value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(objects.flatten().collect())
}
