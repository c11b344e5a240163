//! Continued texts as events.

use axum::response::Response;
use serde_json::json;

use super::chunks::Chunks;
use super::logprobs::Listed;
use super::sampling::StreamOptions;
use super::usage::finish_reason;
use crate::answer::{Answer, Part};
use crate::api::writing::{Writer, streamed};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::sse;

/// Writes the parts of an answer as they come.
pub struct TextStream {
    chunks: Chunks,
    /// Prompts that are to be told before their continuations, by choice.
    echoes: Vec<String>,
    /// Log-probabilities of tokens whose words have not come yet, by choice.
    listed: Vec<Listed>,
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
        let stream = TextStream { chunks: Chunks::new(id, "text_completion", options), echoes, listed };
        streamed(stream, answer, arrival, sse::response)
    }

    fn words(
        &mut self,
        choice: usize,
        words: &str,
        reason: Option<&str>,
        answer: &Answer,
        text: &mut String,
    ) {
        let echo = self.echoes.get_mut(choice).map(std::mem::take).unwrap_or_default();
        let choice = json!({
            "index": choice,
            "text": echo + words,
            "logprobs": self.listed[choice].take(),
            "finish_reason": reason,
        });
        self.chunks.choice(choice, answer, text);
    }
}

impl Writer for TextStream {
    fn part(&mut self, choice: usize, part: Part, answer: &Answer, text: &mut String) {
        match part {
            Part::Token(token) => self.listed[choice].add(&token, &answer.model().tokenizer),
            Part::Text(words) => self.words(choice, &words, None, answer, text),
            Part::Finished(ending) => self.words(choice, "", Some(finish_reason(&ending)), answer, text),
            // Only answers to chat templates have these.
            Part::Reasoning(_) | Part::CallBegun { .. } | Part::CallArguments { .. } => {}
        }
    }

    fn end(&mut self, answer: &Answer, text: &mut String) {
        self.chunks.end(answer, text);
    }

    fn problem(&mut self, problem: &Problem, text: &mut String) {
        self.chunks.problem(problem, text);
    }
}
