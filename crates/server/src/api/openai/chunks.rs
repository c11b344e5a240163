//! What all events of a streamed answer have in common.

use serde_json::{Value, json};

use super::FINGERPRINT;
use super::sampling::StreamOptions;
use super::usage::usage;
use crate::answer::Answer;
use crate::errors::Problem;
use crate::{ids, sse};

/// Writes events of one kind.
pub struct Chunks {
    id: String,
    object: &'static str,
    created: u64,
    options: StreamOptions,
}

impl Chunks {
    /// Events of an answer that has an id.
    pub fn new(id: String, object: &'static str, options: StreamOptions) -> Chunks {
        Chunks { id, object, created: ids::now(), options }
    }

    /// Writes an event that changes one choice.
    pub fn choice(&self, choice: Value, answer: &Answer, text: &mut String) {
        self.write(json!([choice]), Value::Null, answer, text);
    }

    /// Writes the end: what it took, if that was asked for, and the mark that nothing follows.
    pub fn end(&self, answer: &Answer, text: &mut String) {
        if self.options.with_usage {
            self.write(json!([]), usage(answer.usage()), answer, text);
        }
        sse::done(text);
    }

    /// Writes why nothing more comes.
    pub fn problem(&self, problem: &Problem, text: &mut String) {
        sse::data(text, &problem.openai());
    }

    fn write(&self, choices: Value, usage: Value, answer: &Answer, text: &mut String) {
        let mut chunk = json!({
            "id": self.id,
            "object": self.object,
            "created": self.created,
            "model": answer.model().id,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.options.with_usage {
            chunk["usage"] = usage;
        }
        sse::data(text, &chunk);
    }
}
