//! Continued texts as events.

use axum::response::Response;
use serde_json::{Value, json};

use super::FINGERPRINT;
use super::logprobs::Listed;
use super::sampling::StreamOptions;
use super::usage::{finish_reason, usage};
use crate::answer::{Answer, Part};
use crate::arrival::Arrival;
use crate::ids;
use crate::sse::{self, Source};

/// Writes the parts of an answer as they come.
pub struct TextStream {
    id: String,
    created: u64,
    answer: Answer,
    options: StreamOptions,
    arrival: Arrival,
    /// Prompts that are to be told before their continuations, by choice.
    echoes: Vec<String>,
    /// Log-probabilities of tokens whose words have not come yet, by choice.
    listed: Vec<Listed>,
    ended: bool,
}

impl TextStream {
    /// The response that streams an answer.
    pub fn response(
        id: String,
        answer: Answer,
        echoes: Vec<String>,
        options: StreamOptions,
        arrival: Arrival,
    ) -> Response {
        let listed = (0..answer.choices()).map(|_| Listed::default()).collect();
        let created = ids::now();
        sse::response(TextStream { id, created, answer, options, arrival, echoes, listed, ended: false })
    }

    fn chunk(&self, choices: Value, usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "text_completion",
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

    fn words(&mut self, choice: usize, words: String, reason: Option<&str>, text: &mut String) {
        let echo = self.echoes.get_mut(choice).map(std::mem::take).unwrap_or_default();
        let choice = json!({
            "index": choice,
            "text": echo + &words,
            "logprobs": self.listed[choice].take(),
            "finish_reason": reason,
        });
        sse::data(text, &self.chunk(json!([choice]), Value::Null));
    }

    fn part(&mut self, choice: usize, part: Part, text: &mut String) {
        match part {
            Part::Token(token) => self.listed[choice].add(&token, &self.answer.model().tokenizer),
            Part::Text(words) => self.words(choice, words, None, text),
            Part::Finished(ending) => {
                let reason = finish_reason(&ending);
                self.arrival.record.ended(reason);
                self.words(choice, String::new(), Some(reason), text);
            }
            // Only answers to chat templates have these.
            Part::Reasoning(_) | Part::CallBegun { .. } | Part::CallArguments { .. } => {}
        }
    }
}

impl Source for TextStream {
    async fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while text.is_empty() {
            if self.ended {
                return None;
            }
            match self.answer.next().await {
                Some(Ok((choice, part))) => self.part(choice, part, &mut text),
                None => {
                    self.ended = true;
                    let taken = self.answer.usage();
                    self.arrival.record.usage(taken);
                    if self.options.with_usage {
                        sse::data(&mut text, &self.chunk(json!([]), usage(taken)));
                    }
                    sse::done(&mut text);
                }
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
