//! What guessing the next tokens gains: the same answers with guesses and without, in turn.

use std::sync::Arc;

use gleed_engine::{Batcher, Event, GenerationSettings, SamplerSettings, Speculation, Text};
use serde::Serialize;

use crate::{Progress, Rates, Result};

/// A text to be continued.
#[derive(Debug, Clone)]
pub struct GuessText {
    /// What kind of text it is.
    pub name: &'static str,
    /// Its tokens.
    pub tokens: Vec<u32>,
}

/// What guesses gained for one text.
#[derive(Debug, Clone, Serialize)]
pub struct GuessGain {
    /// What kind of text it is.
    pub text: &'static str,
    /// Tokens per second without guesses.
    pub plain: Rates,
    /// Tokens per second with guesses.
    pub guessed: Rates,
    /// How many times as fast guesses made it, from the medians.
    pub ratio: f64,
    /// Tokens that were guessed, in all repetitions.
    pub guessed_tokens: u64,
    /// Of these, those that were right.
    pub accepted_tokens: u64,
    /// Whether every answer had the same tokens.
    pub same: bool,
}

/// Tokens without text: nothing but their number is looked at.
struct NoText;

impl Text for NoText {
    fn push(&mut self, _token: u32) -> String {
        String::new()
    }

    fn finish(&mut self) -> String {
        String::new()
    }

    fn is_end(&self, _token: u32) -> bool {
        false
    }
}

/// Continues each text by `tokens` tokens, without guesses and with them in turn. The batcher has no prefix cache.
pub fn guesses(
    batcher: &mut Batcher,
    texts: &[GuessText],
    tokens: usize,
    repetitions: usize,
    when: Speculation,
    progress: Progress<'_>,
) -> Result<Vec<GuessGain>> {
    let mut gains = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let (mut rates, mut answers) = ([vec![], vec![]], Vec::<Vec<u32>>::new());
        let before = batcher.status();
        for repetition in 0..=repetitions {
            progress(index * (repetitions + 1) + repetition, texts.len() * (repetitions + 1), text.name);
            for (mode, rates) in [Speculation::Off, when].into_iter().zip(&mut rates) {
                batcher.set_speculation(mode);
                let (answer, seconds) = answer(batcher, &text.tokens, tokens)?;
                // The first round warms up.
                if repetition > 0 {
                    rates.push(answer.len() as f64 / seconds);
                }
                answers.push(answer);
            }
        }
        let after = batcher.status();
        let [plain, guessed] = rates.map(Rates::new);
        gains.push(GuessGain {
            text: text.name,
            ratio: guessed.median / plain.median,
            plain,
            guessed,
            guessed_tokens: after.guessed_tokens - before.guessed_tokens,
            accepted_tokens: after.accepted_tokens - before.accepted_tokens,
            same: answers.windows(2).all(|pair| pair[0] == pair[1]),
        });
    }
    Ok(gains)
}

/// The tokens of an answer, and the seconds from the end of the prompt to its end.
fn answer(batcher: &mut Batcher, prompt: &[u32], tokens: usize) -> Result<(Vec<u32>, f64)> {
    let settings = GenerationSettings {
        max_tokens: Some(tokens),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..GenerationSettings::default()
    };
    let mut answer = vec![];
    let finish = batcher.answer(prompt, settings, NoText, &Arc::default(), |event| {
        if let Event::Token(token) = event {
            answer.push(token.id);
        }
    })?;
    Ok((answer, finish.timings.generation_seconds))
}
