//! The blocks of a message, and the events that tell of them as they come.

use serde_json::{Value, json};

use super::errors::error;
use crate::answer::{Answer, Ending, Part, Usage};
use crate::api::writing::Writer;
use crate::errors::Problem;
use crate::ids;
use crate::sse;

/// A message in the making.
pub struct Content {
    id: String,
    model: String,
    /// The most tokens that were asked for.
    most: Option<usize>,
    blocks: Vec<Block>,
    has_begun: bool,
    /// Whether the last block goes on.
    is_open: bool,
    ending: Option<Ending>,
    usage: Usage,
}

enum Block {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, arguments: String },
}

impl Block {
    fn value(&self) -> Value {
        match self {
            Block::Thinking(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Call { id, name, arguments } => {
                // Of a call that was cut the arguments are not known.
                let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                json!({ "type": "tool_use", "id": id, "name": name, "input": input })
            }
        }
    }
}

impl Content {
    /// A message without content.
    pub fn new(model: &str, most: Option<usize>) -> Content {
        Content {
            id: ids::new("msg_"),
            model: model.to_string(),
            most,
            blocks: Vec::new(),
            has_begun: false,
            is_open: false,
            ending: None,
            usage: Usage::default(),
        }
    }

    /// The message as far as it is known.
    pub fn message(&self) -> Value {
        let (reason, sequence) = self.stop();
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.blocks.iter().map(Block::value).collect::<Vec<_>>(),
            "stop_reason": reason,
            "stop_sequence": sequence,
            "usage": usage(self.usage),
        })
    }

    /// Why it ended, and at which stop string.
    fn stop(&self) -> (Option<&'static str>, Option<&str>) {
        match &self.ending {
            None => (None, None),
            Some(Ending::Stop) => (Some("end_turn"), None),
            Some(Ending::StopString(stop)) => (Some("stop_sequence"), Some(stop)),
            Some(Ending::Calls) => (Some("tool_use"), None),
            Some(Ending::Length) if self.most.is_some_and(|most| self.usage.completion < most) => {
                (Some("model_context_window_exceeded"), None)
            }
            // An answer whose time is over is cut as one that is too long.
            Some(Ending::Length | Ending::Deadline) => (Some("max_tokens"), None),
        }
    }

    fn block_event(&self, kind: &str, mut more: Value, text: &mut String) {
        more["type"] = kind.into();
        more["index"] = (self.blocks.len() - 1).into();
        sse::event(text, kind, &more);
    }

    fn open(&mut self, block: Block, text: &mut String) {
        self.close(text);
        let begun = json!({ "content_block": block.value() });
        self.blocks.push(block);
        self.is_open = true;
        self.block_event("content_block_start", begun, text);
    }

    fn close(&mut self, text: &mut String) {
        if std::mem::replace(&mut self.is_open, false) {
            self.block_event("content_block_stop", json!({}), text);
        }
    }

    fn delta(&self, delta: Value, text: &mut String) {
        self.block_event("content_block_delta", json!({ "delta": delta }), text);
    }

    /// The block that goes on.
    fn last(&mut self) -> Option<&mut Block> {
        self.blocks.last_mut().filter(|_| self.is_open)
    }

    fn thinking(&mut self, words: String, text: &mut String) {
        if !matches!(self.last(), Some(Block::Thinking(_))) {
            self.open(Block::Thinking(String::new()), text);
        }
        if let Some(Block::Thinking(so_far)) = self.last() {
            so_far.push_str(&words);
        }
        self.delta(json!({ "type": "thinking_delta", "thinking": words }), text);
    }

    fn words(&mut self, words: String, text: &mut String) {
        if !matches!(self.last(), Some(Block::Text(_))) {
            self.open(Block::Text(String::new()), text);
        }
        if let Some(Block::Text(so_far)) = self.last() {
            so_far.push_str(&words);
        }
        self.delta(json!({ "type": "text_delta", "text": words }), text);
    }

    fn arguments(&mut self, json: String, text: &mut String) {
        if let Some(Block::Call { arguments, .. }) = self.last() {
            arguments.push_str(&json);
            self.delta(json!({ "type": "input_json_delta", "partial_json": json }), text);
        }
    }
}

impl Writer for Content {
    fn part(&mut self, _choice: usize, part: Part, answer: &Answer, text: &mut String) {
        // Only now is it known how much of the prompt was there already.
        if !std::mem::replace(&mut self.has_begun, true) {
            self.usage = answer.usage();
            let begun = json!({ "type": "message_start", "message": self.message() });
            sse::event(text, "message_start", &begun);
            sse::event(text, "ping", &json!({ "type": "ping" }));
        }
        match part {
            Part::Token(_) => {}
            Part::Reasoning(words) => self.thinking(words, text),
            Part::Text(words) => self.words(words, text),
            Part::CallBegun { id, name, .. } => {
                self.open(Block::Call { id, name, arguments: String::new() }, text);
            }
            Part::CallArguments { json, .. } => self.arguments(json, text),
            Part::Finished(ending) => {
                self.ending = Some(ending);
                self.close(text);
            }
        }
    }

    fn end(&mut self, answer: &Answer, text: &mut String) {
        self.usage = answer.usage();
        let (reason, sequence) = self.stop();
        let delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": sequence },
            "usage": usage(self.usage),
        });
        sse::event(text, "message_delta", &delta);
        sse::event(text, "message_stop", &json!({ "type": "message_stop" }));
    }

    fn problem(&mut self, problem: &Problem, text: &mut String) {
        sse::event(text, "error", &error(problem));
    }
}

/// The `usage` object, in which cached tokens are counted by themselves.
fn usage(usage: Usage) -> Value {
    let Usage { prompt, cached, completion, reasoning } = usage;
    json!({
        "input_tokens": prompt.saturating_sub(cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
        "output_tokens_details": { "thinking_tokens": reasoning },
    })
}
