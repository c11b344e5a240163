//! Ollama's API, so that its many clients work: `/api/chat`, `/api/generate`, `/api/embed`, `/api/tags` and others.
//! Models are neither fetched nor made nor deleted by it, and nothing of a prompt is cut.

mod chat;
mod embed;
mod generate;
mod keep;
mod lines;
mod messages;
mod models;
mod ndjson;
mod options;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gleed_tokenizer::strftime;
use serde_json::{Value, json};

use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::model::Model;

pub use chat::chat;
pub use embed::{embed, embeddings};
pub use generate::generate;
pub use models::{ps, show, tags, version};

/// The object that tells a problem.
pub fn error(problem: &Problem) -> Value {
    json!({ "error": problem.message })
}

/// When a request began, and how long its model took to be there.
#[derive(Debug, Clone, Copy)]
struct Times {
    began: Instant,
    load: Duration,
}

/// Loads the model that a request names. `name:latest` is `name`, as in Ollama.
async fn model(arrival: &mut Arrival) -> Result<(Arc<Model>, Times), Problem> {
    let began = Instant::now();
    let name = arrival.fields.require("model")?.string()?;
    let is_known = arrival.app.models.find(Some(&name)).is_ok();
    let short = name.strip_suffix(":latest").filter(|_| !is_known).unwrap_or(&name);
    let model = arrival.model_of(Some(short)).await?;
    Ok((model, Times { began, load: began.elapsed() }))
}

/// The time as Ollama writes it.
fn timestamp() -> String {
    utc(SystemTime::now())
}

fn utc(time: SystemTime) -> String {
    let parts = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    format!("{}.{parts:09}Z", strftime("%FT%T", time))
}

/// Nanoseconds, of which durations are told.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
