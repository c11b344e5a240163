//! Answers to chats and prompts, line by line or whole.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Times, error, nanoseconds, ndjson, timestamp};
use crate::answer::{Answer, Ending, Part};
use crate::api::openai::logprobs;
use crate::api::writing::Writer;
use crate::errors::Problem;

/// Where the words of an answer stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In `message`.
    Chat,
    /// In `response`.
    Generate,
}

/// An answer in the making.
pub struct Lines {
    shape: Shape,
    model: String,
    times: Times,
    /// All of it.
    whole: Words,
    /// A call whose arguments are coming: id, name, arguments.
    call: Option<(String, String, String)>,
    calls: usize,
    /// Log-probabilities of tokens whose words have not come yet.
    logprobs: Vec<Value>,
    ending: Option<Ending>,
    /// The fields of the last line.
    last: Map<String, Value>,
}

/// What one line says.
#[derive(Default)]
struct Words {
    text: String,
    thinking: String,
    calls: Vec<Value>,
    logprobs: Vec<Value>,
}

impl Lines {
    /// An answer without words.
    pub fn new(shape: Shape, model: &str, times: Times) -> Lines {
        Lines {
            shape,
            model: model.to_string(),
            times,
            whole: Words::default(),
            call: None,
            calls: 0,
            logprobs: Vec::new(),
            ending: None,
            last: Map::new(),
        }
    }

    /// The whole answer in one line.
    pub fn answer(&self) -> Value {
        self.line(&self.whole, self.last.clone())
    }

    fn line(&self, words: &Words, more: Map<String, Value>) -> Value {
        let mut said = Map::new();
        if !words.thinking.is_empty() {
            said.insert("thinking".to_string(), words.thinking.as_str().into());
        }
        if !words.calls.is_empty() {
            said.insert("tool_calls".to_string(), words.calls.as_slice().into());
        }
        let mut line = json!({ "model": self.model, "created_at": timestamp() });
        let text = words.text.as_str();
        match self.shape {
            Shape::Chat => {
                let mut message = json!({ "role": "assistant", "content": text });
                extend(&mut message, said);
                line["message"] = message;
            }
            Shape::Generate => {
                line["response"] = text.into();
                extend(&mut line, said);
            }
        }
        if !words.logprobs.is_empty() {
            line["logprobs"] = words.logprobs.as_slice().into();
        }
        line["done"] = false.into();
        extend(&mut line, more);
        line
    }

    /// Writes a line with some words, and keeps them.
    fn say(&mut self, mut words: Words, text: &mut String) {
        words.logprobs = std::mem::take(&mut self.logprobs);
        ndjson::line(text, &self.line(&words, Map::new()));
        self.whole.text.push_str(&words.text);
        self.whole.thinking.push_str(&words.thinking);
        self.whole.calls.extend(words.calls);
        self.whole.logprobs.extend(words.logprobs);
    }

    /// Writes the call whose arguments have come. One that was cut is not told: its arguments are not known.
    fn flush(&mut self, text: &mut String) {
        let Some((id, name, arguments)) = self.call.take() else { return };
        let Ok(arguments) = serde_json::from_str::<Value>(&arguments) else { return };
        let function = json!({ "index": self.calls, "name": name, "arguments": arguments });
        self.calls += 1;
        let calls = vec![json!({ "id": id, "function": function })];
        self.say(Words { calls, ..Words::default() }, text);
    }
}

impl Writer for Lines {
    fn part(&mut self, _choice: usize, part: Part, answer: &Answer, text: &mut String) {
        match part {
            Part::Token(token) => {
                if token.logprob.is_some() {
                    self.logprobs.push(logprobs::of_chat(&token, &answer.model().tokenizer));
                }
            }
            Part::Reasoning(thinking) => self.say(Words { thinking, ..Words::default() }, text),
            Part::Text(words) => {
                self.flush(text);
                self.say(Words { text: words, ..Words::default() }, text);
            }
            Part::CallBegun { id, name, .. } => {
                self.flush(text);
                self.call = Some((id, name, String::new()));
            }
            Part::CallArguments { json, .. } => {
                self.call.iter_mut().for_each(|(_, _, arguments)| arguments.push_str(&json));
            }
            Part::Finished(ending) => {
                self.flush(text);
                self.ending = Some(ending);
            }
        }
    }

    fn end(&mut self, answer: &Answer, text: &mut String) {
        let usage = answer.usage();
        let seconds = |seconds: f64| nanoseconds(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let timings = answer.timings();
        let reason = match self.ending {
            Some(Ending::Length | Ending::Deadline) => "length",
            _ => "stop",
        };
        let last = json!({
            "done": true,
            "done_reason": reason,
            "total_duration": nanoseconds(self.times.began.elapsed()),
            "load_duration": nanoseconds(self.times.load),
            "prompt_eval_count": usage.prompt,
            "prompt_eval_duration": timings.map(|timings| seconds(timings.prompt_seconds)),
            "eval_count": usage.completion,
            "eval_duration": timings.map(|timings| seconds(timings.generation_seconds)),
        });
        if let Value::Object(last) = last {
            self.last = last;
        }
        let words = Words { logprobs: std::mem::take(&mut self.logprobs), ..Words::default() };
        ndjson::line(text, &self.line(&words, self.last.clone()));
        self.whole.logprobs.extend(words.logprobs);
    }

    fn problem(&mut self, problem: &Problem, text: &mut String) {
        ndjson::line(text, &error(problem));
    }
}

fn extend(value: &mut Value, more: Map<String, Value>) {
    if let Value::Object(fields) = value {
        fields.extend(more);
    }
}
