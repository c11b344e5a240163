//! A chat's answer as events.

use axum::response::Response;
use serde_json::{Value, json};

use super::chunks::Chunks;
use super::logprobs;
use super::sampling::StreamOptions;
use super::usage::finish_reason;
use crate::answer::{Answer, Part};
use crate::api::writing::{Writer, streamed};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::sse;

/// Writes the parts of an answer as they come.
pub struct ChatStream {
    chunks: Chunks,
    /// Which choices have begun.
    begun: Vec<bool>,
    /// Log-probabilities of tokens whose words have not come yet, by choice.
    logprobs: Vec<Vec<Value>>,
}

impl ChatStream {
    /// The response that streams an answer.
    pub fn response(id: String, answer: Answer, options: StreamOptions, arrival: Arrival) -> Response {
        let choices = answer.choices();
        let chunks = Chunks::new(id, "chat.completion.chunk", options);
        let stream = ChatStream { chunks, begun: vec![false; choices], logprobs: vec![Vec::new(); choices] };
        streamed(stream, answer, arrival, sse::response)
    }

    /// An event that changes one choice, with the log-probabilities of the tokens before it.
    fn delta(
        &mut self,
        choice: usize,
        delta: Value,
        reason: Option<&'static str>,
        answer: &Answer,
        text: &mut String,
    ) {
        let tokens = std::mem::take(&mut self.logprobs[choice]);
        let logprobs =
            if tokens.is_empty() { Value::Null } else { json!({ "content": tokens, "refusal": null }) };
        let mut write = |delta: Value, logprobs: Value, reason: Option<&str>| {
            let choice =
                json!({ "index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": reason });
            self.chunks.choice(choice, answer, text);
        };
        if !std::mem::replace(&mut self.begun[choice], true) {
            write(json!({ "role": "assistant", "content": "" }), Value::Null, None);
        }
        write(delta, logprobs, reason);
    }
}

impl Writer for ChatStream {
    fn part(&mut self, choice: usize, part: Part, answer: &Answer, text: &mut String) {
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
                    let entry = logprobs::of_chat(&token, &answer.model().tokenizer);
                    self.logprobs[choice].push(entry);
                }
            }
            Part::Text(words) => self.delta(choice, json!({ "content": words }), None, answer, text),
            Part::Reasoning(words) => {
                self.delta(choice, json!({ "reasoning_content": words }), None, answer, text)
            }
            Part::CallBegun { call: number, id, name } => {
                let begun =
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
                self.delta(choice, call(number, begun), None, answer, text);
            }
            Part::CallArguments { call: number, json: more } => {
                let more = call(number, json!({ "function": { "arguments": more } }));
                self.delta(choice, more, None, answer, text);
            }
            Part::Finished(ending) => {
                let reason = finish_reason(&ending);
                self.delta(choice, json!({}), Some(reason), answer, text);
            }
        }
    }

    fn end(&mut self, answer: &Answer, text: &mut String) {
        self.chunks.end(answer, text);
    }

    fn problem(&mut self, problem: &Problem, text: &mut String) {
        self.chunks.problem(problem, text);
    }
}
