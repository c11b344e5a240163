//! One prompt, one answer: the loop that most programs want.
//!
//! It is a batcher's with a single request, so that a single caller has all that a server has: what earlier answers
//! left, guesses of the next tokens, and devices that choose tokens themselves.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use gleed_tokenizer::Tokenizer;

use crate::batcher::{LOOK, Listener, Request, Update};
use crate::generation::{FinishReason, GenerationSettings, Token};
use crate::{Batcher, Result, Text, TokenizerText};

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

/// What guesses of an answer's next tokens came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guesses {
    /// Guessed tokens that were computed to be checked.
    pub guessed: usize,
    /// Of these, those that were right.
    pub accepted: usize,
    /// How many times as fast as the answer's own steps without guesses all its steps were. None where there were not
    /// both kinds.
    pub speedup: Option<f64>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that need not be computed, because an earlier answer left them.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub generated_tokens: usize,
    /// The seed of the sampler, with which the answer can be repeated.
    pub seed: u64,
    /// Where the time went.
    pub timings: Timings,
    /// What guesses came to.
    pub guesses: Guesses,
}

/// Passes on what happens to an answer to the one who waits for it.
struct Caller {
    updates: Sender<Update>,
    cancel: Arc<AtomicBool>,
}

impl Listener for Caller {
    fn update(&mut self, update: Update) {
        // One who stops waiting for the answer loses it.
        let _ = self.updates.send(update);
    }

    fn is_gone(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

impl Batcher {
    /// Answers a prompt, calling `on_event` for every token as it comes.
    ///
    /// What earlier answers left of the prompt's beginning is not computed again. Setting `cancel` ends the answer
    /// between two steps; those that a device has under way still count. What was computed stays for the next turn of a
    /// chat, even after an error.
    pub fn answer(
        &mut self,
        prompt: &[u32],
        settings: GenerationSettings,
        text: impl Text + Send + 'static,
        cancel: &Arc<AtomicBool>,
        on_event: impl FnMut(Event),
    ) -> Result<Finish> {
        let (updates, heard) = channel();
        self.submit(Request {
            prompt: prompt.to_vec(),
            settings,
            text: Box::new(text),
            constraint: None,
            adapters: Default::default(),
            uses_cache: true,
            deadline: None,
            listener: Box::new(Caller { updates, cancel: cancel.clone() }),
        })?;
        let (on_event, end) = (RefCell::new(on_event), RefCell::new(None));
        let pass_on = || {
            heard.try_iter().for_each(|update| match update {
                Update::Started { .. } => {}
                Update::Event(event) => on_event.borrow_mut()(event),
                Update::Finished(finish) => _ = end.replace(Some(Ok(finish))),
                Update::Failed(error) => _ = end.replace(Some(Err(error))),
            });
        };
        loop {
            let start = Instant::now();
            // Where a device chooses tokens, they are looked at while it works on the next ones.
            let done = self.step(&|| {
                pass_on();
                start.elapsed() > LOOK
            });
            pass_on();
            if let Some(end) = end.take() {
                return end;
            }
            done?;
        }
    }

    /// Continues a text. What the tokenizer puts before every text is added; a model that was made for conversations
    /// wants its chat template around the text too.
    pub fn ask(
        &mut self,
        tokenizer: &Arc<Tokenizer>,
        text: &str,
        settings: GenerationSettings,
    ) -> Result<String> {
        let prompt = tokenizer.encode_prompt(text, true, true);
        let (words, mut answer) = (TokenizerText::new(tokenizer.clone()), String::new());
        self.answer(&prompt, settings, words, &Arc::default(), |event| answer.push_str(event.text()))?;
        Ok(answer)
    }
}
