//! One line for each request, written when it is over: what was asked, how it ended, how long it took. No prompt and no
//! answer is in it unless the operator asks for prompts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::{Method, StatusCode};

use crate::answer::Usage;
use crate::metrics::Metrics;

/// Takes a line for the operator; the command line writes it to stderr.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// What is known of a request. Each part that works on it holds it; when the last lets go, the line is written.
pub struct Record {
    method: Method,
    /// The route, and never the path: a path may hold anything.
    route: String,
    began: Instant,
    log: Log,
    metrics: Arc<Metrics>,
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    /// None when the client left before there was one.
    status: Option<StatusCode>,
    model: Option<String>,
    usage: Option<Usage>,
    endings: Vec<&'static str>,
    problem: Option<String>,
    prompt: Option<String>,
}

impl Record {
    /// A request that just came.
    pub fn new(method: Method, route: String, log: Log, metrics: Arc<Metrics>) -> Record {
        Record { method, route, began: Instant::now(), log, metrics, facts: Mutex::default() }
    }

    /// The status that was sent.
    pub fn status(&self, status: StatusCode) {
        self.facts().status = Some(status);
    }

    /// The model that answers.
    pub fn model(&self, id: &str) {
        self.facts().model = Some(id.to_string());
    }

    /// What it took.
    pub fn usage(&self, usage: Usage) {
        self.facts().usage = Some(usage);
    }

    /// How a choice ended.
    pub fn ended(&self, ending: &'static str) {
        self.facts().endings.push(ending);
    }

    /// What went wrong.
    pub fn problem(&self, message: &str) {
        self.facts().problem = Some(message.to_string());
    }

    /// The prompt, where the operator asks for it.
    pub fn prompt(&self, text: String) {
        self.facts().prompt = Some(text);
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        let Facts { status, model, usage, endings, problem, prompt } = std::mem::take(&mut *self.facts());
        let status = status.map_or("gone".to_string(), |status| status.as_u16().to_string());
        self.metrics.request(&self.route, &status, seconds);
        let mut line = format!("{} {} {status} {seconds:.3}s", self.method, self.route);
        if let Some(model) = model {
            line += &format!(" model={model}");
        }
        if let Some(Usage { prompt, cached, completion, reasoning }) = usage {
            line += &format!(" prompt={prompt} cached={cached} generated={completion} reasoning={reasoning}");
        }
        if !endings.is_empty() {
            line += &format!(" ended={}", endings.join(","));
        }
        if let Some(problem) = problem {
            line += &format!(" problem={problem:?}");
        }
        if let Some(prompt) = prompt {
            line += &format!(" prompt={prompt:?}");
        }
        (self.log)(&line);
    }
}
