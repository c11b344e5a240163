//! What a server is asked before it is measured: its model's name, which of the fields that not every server has it
//! takes, and how many tokens it makes of words.

use gleed_engine::sampler::Random;
use serde_json::{Value, json};

use super::answer::{Usage, piece};
use super::client::Server;
use super::error::{Error, Failure, Result};
use super::prompts::{Measure, some_words};
use super::workload::Manner;
use std::ops::ControlFlow;

/// What is known of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The model that is asked.
    pub model: String,
    /// Whether answers can be kept from ending early.
    pub ignore_eos: bool,
    /// Whether a stream says how many tokens it took.
    pub stream_usage: bool,
    /// How it counts words.
    pub measure: Measure,
}

/// Numbers of words of the two prompts that are counted.
const FEW: usize = 8;
const MANY: usize = 72;

impl Known {
    /// Asks the server. Where no model is named, the first that it lists is taken.
    pub fn of(server: &Server, model: Option<&str>, manner: Manner) -> Result<Known> {
        let failed =
            |what| move |failure| Error::Server { address: server.address().to_string(), what, failure };
        let model = match model {
            Some(model) => model.to_string(),
            None => first_model(server).map_err(failed("its models"))?,
        };
        let ask = |words: usize, fields: Value| {
            let mut body = manner.prompt(&some_words(words, &mut Random::new(words as u64)));
            body["model"] = json!(model);
            body["temperature"] = json!(0);
            if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
                body.extend(fields);
            }
            body.to_string()
        };
        let path = manner.path();
        let plain = server.post(path, &ask(FEW, json!({ "max_tokens": 1 }))).map_err(failed("an answer"))?;
        let many = server.post(path, &ask(MANY, json!({ "max_tokens": 1 }))).map_err(failed("an answer"))?;
        let tokens = |answer: &Value| Usage::of(answer).map_or(0, |usage| usage.prompt_tokens);
        let measure = Measure::of((FEW, tokens(&plain)), (MANY, tokens(&many)));
        let takes = |answer: std::result::Result<(), Failure>, what| match answer {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_refusal() => Ok(false),
            Err(failure) => Err(failed(what)(failure)),
        };
        let fields = json!({ "max_tokens": 2, "ignore_eos": true });
        let ignore_eos = takes(server.post(path, &ask(FEW, fields)).map(|_| ()), "an answer of two tokens")?;
        let options = json!({ "include_usage": true });
        let fields = json!({ "max_tokens": 1, "stream": true, "stream_options": options });
        let mut has_usage = false;
        let streamed = server.stream(path, &ask(FEW, fields), &mut |_, data| {
            if data != "[DONE]" {
                has_usage |= piece(data)?.usage.is_some();
            }
            Ok(ControlFlow::Continue(()))
        });
        let stream_usage = takes(streamed.map(|_| ()), "a stream")? && has_usage;
        Ok(Known { model, ignore_eos, stream_usage, measure })
    }

    /// A server of which a word is a token.
    #[cfg(test)]
    pub fn plain() -> Known {
        let measure = Measure { tokens_per_word: 1.0, overhead: 0.0 };
        Known { model: "m".into(), ignore_eos: true, stream_usage: true, measure }
    }
}

/// The name of the first model that the server lists.
fn first_model(server: &Server) -> std::result::Result<String, Failure> {
    let models = server.get("/v1/models")?;
    let first = models["data"][0]["id"].as_str();
    first
        .map(str::to_string)
        .ok_or_else(|| Failure::NotUnderstood("no model is listed: name one".to_string()))
}
