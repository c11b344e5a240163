//! The items of a response, and the events that tell of them as they come.

use serde_json::{Map, Value, json};

use crate::answer::{Answer, Ending, Part, Usage};
use crate::api::openai::logprobs;
use crate::api::writing::Writer;
use crate::errors::Problem;
use crate::ids;
use crate::sse;

/// A response in the making.
pub struct Output {
    id: String,
    created: u64,
    model: String,
    /// What is repeated of the request.
    told: Map<String, Value>,
    items: Vec<Item>,
    /// Whether the last item goes on.
    is_open: bool,
    /// Events so far.
    events: u64,
    /// Log-probabilities of tokens whose words have not come yet.
    logprobs: Vec<Value>,
    ending: Option<Ending>,
    usage: Option<Usage>,
    problem: Option<Problem>,
}

/// One item.
struct Item {
    id: String,
    kind: Kind,
}

enum Kind {
    Reasoning { text: String },
    Message { text: String, logprobs: Vec<Value> },
    Call { call_id: String, name: String, arguments: String },
}

impl Item {
    fn new(kind: Kind) -> Item {
        let prefix = match kind {
            Kind::Reasoning { .. } => "rs_",
            Kind::Message { .. } => "msg_",
            Kind::Call { .. } => "fc_",
        };
        Item { id: ids::new(prefix), kind }
    }

    /// The part of its content; none for a call.
    fn content(&self) -> Option<Value> {
        match &self.kind {
            Kind::Reasoning { text } => Some(json!({ "type": "reasoning_text", "text": text })),
            Kind::Message { text, logprobs } => {
                let logprobs = logprobs.as_slice();
                Some(json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs }))
            }
            Kind::Call { .. } => None,
        }
    }

    fn value(&self, status: &str) -> Value {
        // An item begins without content, which is added to it.
        let content =
            self.content().filter(|_| status != "in_progress").map_or(json!([]), |part| json!([part]));
        let id = &self.id;
        match &self.kind {
            Kind::Reasoning { .. } => {
                json!({ "id": id, "type": "reasoning", "status": status, "summary": [], "content": content })
            }
            Kind::Message { .. } => {
                json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
            }
            Kind::Call { call_id, name, arguments } => json!({
                "id": id, "type": "function_call", "status": status,
                "call_id": call_id, "name": name, "arguments": arguments,
            }),
        }
    }
}

impl Output {
    /// A response that has nothing yet, with what it repeats of its request.
    pub fn new(model: &str, told: Map<String, Value>) -> Output {
        Output {
            id: ids::new("resp_"),
            created: ids::now(),
            model: model.to_string(),
            told,
            items: Vec::new(),
            is_open: false,
            events: 0,
            logprobs: Vec::new(),
            ending: None,
            usage: None,
            problem: None,
        }
    }

    /// Whether the answer was cut.
    fn is_cut(&self) -> bool {
        matches!(self.ending, Some(Ending::Length | Ending::Deadline)) || self.problem.is_some()
    }

    fn status(&self) -> &'static str {
        match self.usage {
            _ if self.problem.is_some() => "failed",
            None => "in_progress",
            Some(_) if self.is_cut() => "incomplete",
            Some(_) => "completed",
        }
    }

    /// The response as far as it is known.
    pub fn response(&self) -> Value {
        let status = self.status();
        let last = self.items.len().wrapping_sub(1);
        let item = |(index, item): (usize, &Item)| {
            item.value(if index == last && self.is_cut() { "incomplete" } else { "completed" })
        };
        let error = self
            .problem
            .as_ref()
            .map(|problem| json!({ "code": "server_error", "message": problem.message }));
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": error,
            "incomplete_details": (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" })),
            "model": self.model,
            "output": self.items.iter().enumerate().map(item).collect::<Vec<Value>>(),
            "usage": self.usage.map(usage),
        });
        if let Value::Object(fields) = &mut response {
            fields.extend(self.told.clone());
        }
        response
    }

    /// Writes an event, numbered.
    fn event(&mut self, kind: &str, more: Value, text: &mut String) {
        let mut event = json!({ "type": kind, "sequence_number": self.events });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        self.events += 1;
        sse::event(text, kind, &event);
    }

    /// Writes an event about the last item.
    fn item_event(&mut self, kind: &str, mut more: Value, text: &mut String) {
        let Some(item) = self.items.last() else { return };
        more["item_id"] = item.id.as_str().into();
        more["output_index"] = (self.items.len() - 1).into();
        // Content has one part; arguments are not content.
        if item.content().is_some() {
            more["content_index"] = 0.into();
        }
        self.event(kind, more, text);
    }

    /// Begins an item.
    fn open(&mut self, kind: Kind, text: &mut String) {
        self.close(text);
        let item = Item::new(kind);
        let added = json!({ "output_index": self.items.len(), "item": item.value("in_progress") });
        let content = item.content();
        self.items.push(item);
        self.is_open = true;
        self.event("response.output_item.added", added, text);
        if let Some(part) = content {
            self.item_event("response.content_part.added", json!({ "part": part }), text);
        }
    }

    /// Ends the item that is open, if one is.
    fn close(&mut self, text: &mut String) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        let status = if self.is_cut() { "incomplete" } else { "completed" };
        let Some(item) = self.items.last() else { return };
        let (whole, content) = (item.value(status), item.content());
        let (kind, done) = match &item.kind {
            Kind::Reasoning { text } => ("response.reasoning_text.done", json!({ "text": text })),
            Kind::Message { text, logprobs } => {
                let logprobs = logprobs.as_slice();
                ("response.output_text.done", json!({ "text": text, "logprobs": logprobs }))
            }
            Kind::Call { name, arguments, .. } => {
                ("response.function_call_arguments.done", json!({ "name": name, "arguments": arguments }))
            }
        };
        self.item_event(kind, done, text);
        if let Some(part) = content {
            self.item_event("response.content_part.done", json!({ "part": part }), text);
        }
        let done = json!({ "output_index": self.items.len() - 1, "item": whole });
        self.event("response.output_item.done", done, text);
    }

    /// The item that is open.
    fn last(&mut self) -> Option<&mut Kind> {
        self.items.last_mut().filter(|_| self.is_open).map(|item| &mut item.kind)
    }

    fn reasoning(&mut self, words: String, text: &mut String) {
        // These tokens are not of the text.
        self.logprobs.clear();
        if !matches!(self.last(), Some(Kind::Reasoning { .. })) {
            self.open(Kind::Reasoning { text: String::new() }, text);
        }
        if let Some(Kind::Reasoning { text: so_far }) = self.last() {
            so_far.push_str(&words);
        }
        self.item_event("response.reasoning_text.delta", json!({ "delta": words }), text);
    }

    fn words(&mut self, words: String, text: &mut String) {
        if !matches!(self.last(), Some(Kind::Message { .. })) {
            self.open(Kind::Message { text: String::new(), logprobs: Vec::new() }, text);
        }
        let tokens = std::mem::take(&mut self.logprobs);
        if let Some(Kind::Message { text: so_far, logprobs }) = self.last() {
            so_far.push_str(&words);
            logprobs.extend(tokens.iter().cloned());
        }
        self.item_event("response.output_text.delta", json!({ "delta": words, "logprobs": tokens }), text);
    }

    fn arguments(&mut self, json: String, text: &mut String) {
        self.logprobs.clear();
        if let Some(Kind::Call { arguments, .. }) = self.last() {
            arguments.push_str(&json);
        }
        self.item_event("response.function_call_arguments.delta", json!({ "delta": json }), text);
    }
}

impl Writer for Output {
    fn begin(&mut self, text: &mut String) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response();
            self.event(kind, json!({ "response": response }), text);
        }
    }

    fn part(&mut self, _choice: usize, part: Part, answer: &Answer, text: &mut String) {
        match part {
            Part::Token(token) => {
                if token.logprob.is_some() {
                    self.logprobs.push(logprobs::of_chat(&token, &answer.model().tokenizer));
                }
            }
            Part::Reasoning(words) => self.reasoning(words, text),
            Part::Text(words) => self.words(words, text),
            Part::CallBegun { id, name, .. } => {
                self.open(Kind::Call { call_id: id, name, arguments: String::new() }, text);
            }
            Part::CallArguments { json, .. } => self.arguments(json, text),
            Part::Finished(ending) => {
                self.ending = Some(ending);
                self.close(text);
            }
        }
    }

    fn end(&mut self, answer: &Answer, text: &mut String) {
        self.usage = Some(answer.usage());
        let response = self.response();
        self.event(&format!("response.{}", self.status()), json!({ "response": response }), text);
    }

    fn problem(&mut self, problem: &Problem, text: &mut String) {
        self.problem = Some(problem.clone());
        self.close(text);
        let response = self.response();
        self.event("response.failed", json!({ "response": response }), text);
    }
}

/// The `usage` object.
fn usage(usage: Usage) -> Value {
    let Usage { prompt, cached, completion, reasoning } = usage;
    json!({
        "input_tokens": prompt,
        "input_tokens_details": { "cached_tokens": cached },
        "output_tokens": completion,
        "output_tokens_details": { "reasoning_tokens": reasoning },
        "total_tokens": prompt + completion,
    })
}
