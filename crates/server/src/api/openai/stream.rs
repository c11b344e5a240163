//! A chat's answer as events.

use axum::response::Response;
use serde_json::{Value, json};

use super::FINGERPRINT;
use super::logprobs;
use super::sampling::StreamOptions;
use super::usage::{finish_reason, usage};
use crate::answer::{Answer, Part};
use crate::arrival::Arrival;
use crate::ids;
use crate::sse::{self, Source};

/// Writes the parts of an answer as they come.
pub struct ChatStream {
    id: String,
    created: u64,
    answer: Answer,
    options: StreamOptions,
    arrival: Arrival,
    /// Which choices have begun.
    begun: Vec<bool>,
    /// Log-probabilities of tokens whose words have not come yet, by choice.
    logprobs: Vec<Vec<Value>>,
    ended: bool,
}

impl ChatStream {
    /// The response that streams an answer.
    pub fn response(id: String, answer: Answer, options: StreamOptions, arrival: Arrival) -> Response {
        let choices = answer.choices();
        sse::response(ChatStream {
            id,
            created: ids::now(),
            answer,
            options,
            arrival,
            begun: vec![false; choices],
            logprobs: vec![Vec::new(); choices],
            ended: false,
        })
    }

    fn chunk(&self, choices: Value, usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.answer.model().id,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.options.with_usage {
            chunk["usage"] = usage;
        }
        chunk
    }

    /// An event that changes one choice, with the log-probabilities of the tokens before it.
    fn delta(&mut self, choice: usize, delta: Value, reason: Option<&'static str>, text: &mut String) {
        if !std::mem::replace(&mut self.begun[choice], true) {
            let first = json!({ "role": "assistant", "content": "" });
            self.write(choice, first, Value::Null, None, text);
        }
        let tokens = std::mem::take(&mut self.logprobs[choice]);
        let logprobs =
            if tokens.is_empty() { Value::Null } else { json!({ "content": tokens, "refusal": null }) };
        self.write(choice, delta, logprobs, reason, text);
    }

    fn write(&self, choice: usize, delta: Value, logprobs: Value, reason: Option<&str>, text: &mut String) {
        let choice = json!({
            "index": choice,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": reason,
        });
        sse::data(text, &self.chunk(json!([choice]), Value::Null));
    }

    /// Writes one part.
    fn part(&mut self, choice: usize, part: Part, text: &mut String) {
        let call = |call: usize, more: Value| {
            let mut entry = json!({ "index": call });
            if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
                entry.extend(more);
            }
            json!({ "tool_calls": [entry] })
        };
        match part {
            Part::Token(token) => {
                if token.logprob.is_some() {
                    let entry = logprobs::of_chat(&token, &self.answer.model().tokenizer);
                    self.logprobs[choice].push(entry);
                }
            }
            Part::Text(words) => self.delta(choice, json!({ "content": words }), None, text),
            Part::Reasoning(words) => self.delta(choice, json!({ "reasoning_content": words }), None, text),
            Part::CallBegun { call: number, id, name } => {
                let begun =
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
                self.delta(choice, call(number, begun), None, text);
            }
            Part::CallArguments { call: number, json: more } => {
                let more = call(number, json!({ "function": { "arguments": more } }));
                self.delta(choice, more, None, text);
            }
            Part::Finished(ending) => {
                let reason = finish_reason(&ending);
                self.arrival.record.ended(reason);
                self.delta(choice, json!({}), Some(reason), text);
            }
        }
    }

    /// Writes the end: what it took, if that was asked for, and the mark that nothing follows.
    fn end(&mut self, text: &mut String) {
        self.ended = true;
        let taken = self.answer.usage();
        self.arrival.record.usage(taken);
        if self.options.with_usage {
            sse::data(text, &self.chunk(json!([]), usage(taken)));
        }
        sse::done(text);
    }
}

impl Source for ChatStream {
    async fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while text.is_empty() {
            if self.ended {
                return None;
            }
            match self.answer.next().await {
                None => self.end(&mut text),
                Some(Ok((choice, part))) => self.part(choice, part, &mut text),
                Some(Err(problem)) => {
                    self.ended = true;
                    let problem = self.arrival.failed(self.answer.model(), problem);
                    sse::data(&mut text, &problem.openai());
                }
            }
        }
        Some(text)
    }
}
