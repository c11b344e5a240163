//! One prompt, one answer: the loop that most programs want.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::generation::{FinishReason, Generation, GenerationSettings, Last, Next, Token};
use crate::{Engine, Result, Sequence, Text};

/// What a caller sees while an answer is generated.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The next token.
    Token(Token),
    /// Text of earlier tokens that was held back and can be shown after all. Only at the end.
    Rest(String),
}

impl Event {
    /// The text to show.
    pub fn text(&self) -> &str {
        match self {
            Event::Token(token) => &token.text,
            Event::Rest(text) => text,
        }
    }
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timings {
    /// Waiting for room among other requests.
    pub queue_seconds: f64,
    /// Computing the prompt.
    pub prompt_seconds: f64,
    /// From the end of the prompt to the end of the answer.
    pub generation_seconds: f64,
    /// From the start to the first token; none when there was no token.
    pub time_to_first_token: Option<f64>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that the sequence already held.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub generated_tokens: usize,
    /// The seed of the sampler, with which the answer can be repeated.
    pub seed: u64,
    /// Where the time went.
    pub timings: Timings,
}

impl Engine {
    /// Answers a prompt, calling `on_event` for every token as it comes.
    ///
    /// What the sequence already holds of the prompt's beginning is not computed again. Setting `cancel`
    /// ends the answer between two steps. Afterwards, even after an error, the sequence holds exactly the
    /// tokens that were computed, so that the next turn of a chat can continue from it; the last token of
    /// the answer is usually not among them.
    pub fn generate<T: Text>(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        settings: GenerationSettings,
        text: T,
        cancel: &AtomicBool,
        on_event: impl FnMut(Event),
    ) -> Result<Finish> {
        self.must_give_logits()?;
        let mut generation = Generation::new(settings, self.vocabulary(), prompt, text)?;
        let cached_tokens = self.align(sequence, prompt)?;
        let result = self.answer(sequence, &mut generation, cancel, on_event);
        // Pages of tokens that were decoded ahead and not used.
        sequence.revert();
        sequence.truncate(sequence.computed());
        let (reason, timings) = result?;
        Ok(Finish {
            reason,
            prompt_tokens: prompt.len(),
            cached_tokens,
            generated_tokens: generation.generated(),
            seed: generation.seed(),
            timings,
        })
    }

    /// Computes what is pending and goes on from there to the end of the answer.
    fn answer<T: Text>(
        &mut self,
        sequence: &mut Sequence,
        generation: &mut Generation<T>,
        cancel: &AtomicBool,
        mut on_event: impl FnMut(Event),
    ) -> Result<(FinishReason, Timings)> {
        let start = Instant::now();
        let prompt_done = self.compute(sequence, cancel)?;
        let prompt_time = start.elapsed();
        let mut first_token: Option<Duration> = None;
        let Last { token, rest, reason } = loop {
            if !prompt_done || cancel.load(Ordering::Relaxed) {
                break generation.end(FinishReason::Cancelled);
            }
            let last = sequence.computed() >= self.context();
            let advance = generation.advance(self.logits(0), last)?;
            if generation.generated() == 1 {
                first_token.get_or_insert(start.elapsed());
            }
            match advance {
                Next::Token(token) => {
                    sequence.push(token.id);
                    on_event(Event::Token(token));
                    if cancel.load(Ordering::Relaxed) {
                        break generation.end(FinishReason::Cancelled);
                    }
                    if let Some(rule) = generation.rule().filter(|rule| self.can_decode_ahead(rule)) {
                        break self.decode_ahead(sequence, generation, rule, cancel, &mut on_event)?;
                    }
                    self.step_many(&mut [sequence])?;
                }
                Next::Last(end) => break end,
            }
        };
        if let Some(token) = token {
            on_event(Event::Token(token));
        }
        if !rest.is_empty() {
            on_event(Event::Rest(rest));
        }
        let timings = Timings {
            queue_seconds: 0.0,
            prompt_seconds: prompt_time.as_secs_f64(),
            generation_seconds: (start.elapsed() - prompt_time).as_secs_f64(),
            time_to_first_token: first_token.map(|t| t.as_secs_f64()),
        };
        Ok((reason, timings))
    }
}
