//! One who listens to an answer and checks that it is told in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gleed_engine::{Error, Event, FinishReason, Listener, Update};

/// What a listener heard.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Heard {
    /// Tokens that were there when it began.
    pub started: Option<usize>,
    /// Tokens and text.
    pub events: Vec<Event>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// Why there is no answer.
    pub failure: Option<Error>,
}

/// A listener that keeps what it hears. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Ear {
    heard: Arc<Mutex<Heard>>,
    gone: Arc<AtomicBool>,
}

impl Ear {
    /// What it heard so far.
    pub fn heard(&self) -> Heard {
        self.heard.lock().unwrap().clone()
    }

    /// Whether nothing can follow.
    pub fn is_over(&self) -> bool {
        let heard = self.heard();
        heard.finish.is_some() || heard.failure.is_some()
    }
}

impl Ear {
    /// Does not listen any more.
    pub fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

impl Listener for Ear {
    fn update(&mut self, update: Update) {
        let mut heard = self.heard.lock().unwrap();
        assert!(heard.finish.is_none() && heard.failure.is_none(), "nothing follows the end");
        match update {
            Update::Started { cached_tokens } => assert_eq!(heard.started.replace(cached_tokens), None),
            Update::Event(event) => heard.events.push(event),
            Update::Finished(finish) => {
                let tokens = heard.events.iter().filter(|event| matches!(event, Event::Token(_))).count();
                assert_eq!(finish.generated_tokens, tokens);
                assert_eq!(finish.cached_tokens, heard.started.unwrap_or(0));
                heard.finish = Some(finish.reason);
            }
            Update::Failed(error) => heard.failure = Some(error),
        }
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}
