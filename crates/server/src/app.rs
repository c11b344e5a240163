//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::auth::Keys;
use crate::limits::Limits;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::origin::Origins;
use crate::registry::Registry;
use crate::status::History;

/// A server's state.
pub struct App {
    /// The models.
    pub models: Arc<Registry>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The last minutes.
    pub history: History,
    /// What a request may ask for.
    pub limits: Limits,
    /// Who may ask.
    pub keys: Keys,
    /// Which web pages may ask.
    pub origins: Origins,
    /// Where lines for the operator go.
    pub log: Log,
    /// Whether they have prompts.
    pub logs_prompts: bool,
    /// How long an answer may take.
    pub deadline: Option<Duration>,
    /// Held by each request that is not over.
    pub flights: Arc<()>,
    /// Whether no more requests are taken.
    pub closing: AtomicBool,
}

impl App {
    /// Whether no more requests are taken.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Requests that are not over.
    pub fn in_flight(&self) -> usize {
        Arc::strong_count(&self.flights) - 1
    }

    /// When an answer that begins now must end: by the server's rule, or earlier by the client's.
    pub fn deadline(&self, wished: Option<Duration>) -> Option<Instant> {
        let time = [self.deadline, wished].into_iter().flatten().min()?;
        Instant::now().checked_add(time)
    }
}
