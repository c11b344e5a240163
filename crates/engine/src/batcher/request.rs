//! What is asked of a batcher, and what it tells while it answers.

use std::time::Instant;

use crate::{Adapters, Constraint, Error, Event, Finish, GenerationSettings, Text};

/// One prompt to be answered among others.
pub struct Request {
    /// The tokens of the prompt.
    pub prompt: Vec<u32>,
    /// What to generate and when to stop.
    pub settings: GenerationSettings,
    /// How the answer's tokens become text.
    pub text: Box<dyn Text + Send>,
    /// What the answer may say.
    pub constraint: Option<Box<dyn Constraint>>,
    /// How much of each adapter it takes.
    pub adapters: Adapters,
    /// Whether what others computed of the same beginning may be used. It changes no answer, only the time it takes.
    pub uses_cache: bool,
    /// When the answer ends wherever it is; one that has not begun by then fails.
    pub deadline: Option<Instant>,
    /// Who hears of it.
    pub listener: Box<dyn Listener>,
}

/// Hears of one answer, on the engine's thread: what it does must not take long.
pub trait Listener: Send {
    /// Takes in what happened.
    fn update(&mut self, update: Update);

    /// Whether no client listens any more, so that the answer can end.
    fn is_gone(&self) -> bool;
}

/// What happens to a request: first it is started, then there are events, and it ends with one of the other two.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// It was given room, and its prompt is computed from here on.
    Started {
        /// Tokens of the prompt that need not be computed, because an earlier request left them.
        cached_tokens: usize,
    },
    /// A token, or text at the end.
    Event(Event),
    /// The answer is complete.
    Finished(Finish),
    /// There is no answer, or no more of it.
    Failed(Error),
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be answered at any time.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// There are too many before it.
    #[error("{waiting} requests are waiting already; try again later")]
    QueueFull {
        /// Requests that wait.
        waiting: usize,
    },
    /// No new ones are taken.
    #[error("the server is shutting down")]
    Closing,
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}
