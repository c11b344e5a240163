//! The events of an answer as they are written, and the call that is being written.

use super::AnswerEvent;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Collects events.
#[derive(Debug, Default)]
pub(super) struct CallWriter {
    events: Vec<AnswerEvent>,
    calls: usize,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    call: usize,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl CallWriter {
    /// What was written since the last time.
    pub fn events(&mut self) -> Vec<AnswerEvent> {
        std::mem::take(&mut self.events)
    }

    pub fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push(AnswerEvent::Text(text.to_string()));
        }
    }

    pub fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push(AnswerEvent::Reasoning(text.to_string()));
        }
    }

    /// Whether a call has begun and is not complete.
    pub fn has_open(&self) -> bool {
        self.open.is_some()
    }

    pub fn begin(&mut self, id: Option<String>, name: &str) {
        let call = self.calls;
        self.calls += 1;
        let name = name.to_string();
        self.events.push(AnswerEvent::CallBegun { call, id: id.clone(), name: name.clone() });
        self.open = Some(Open { call, id, name, arguments: String::new() });
    }

    /// More of the arguments, as JSON.
    pub fn arguments(&mut self, json: &str) {
        let Some(open) = self.open.as_mut().filter(|_| !json.is_empty()) else { return };
        open.arguments.push_str(json);
        self.events.push(AnswerEvent::CallArguments { call: open.call, json: json.to_string() });
    }

    /// The arguments of the open call so far.
    pub fn written(&self) -> &str {
        self.open.as_ref().map_or("", |open| &open.arguments)
    }

    /// Ends the call, if its arguments are an object; else says what is wrong with them.
    pub fn finish(&mut self) -> Result<(), String> {
        let Some(open) = &self.open else { return Err("a call has not begun".to_string()) };
        // Nested too deeply is an error of the parser's too.
        serde_json::from_str::<BTreeMap<String, IgnoredAny>>(&open.arguments)
            .map_err(|error| format!("its arguments are not a JSON object: {error}"))?;
        if let Some(Open { call, id, name, arguments }) = self.open.take() {
            self.events.push(AnswerEvent::CallFinished { call, id, name, arguments });
        }
        Ok(())
    }

    /// Gives a call's text back.
    pub fn broken(&mut self, text: String, reason: String) {
        let call = self.open.take().map(|open| open.call);
        self.events.push(AnswerEvent::CallBroken { call, text, reason });
    }
}
