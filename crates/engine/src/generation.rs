//! One answer in the making: logits in, tokens and text out, until something ends it.
//!
//! [`Generation`] is a pure state machine that knows no executor; a [`Batcher`](crate::Batcher) drives one for each of
//! its requests.

use gleed_model::choice::{NO_TOKEN, Rule};

use crate::constraint::{Constrained, Constraint};
use crate::sampler::{LogProb, Sampler, SamplerSettings};
use crate::stop::StopStrings;
use crate::{Error, Result, Text};

/// What to generate and when to stop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GenerationSettings {
    /// The most tokens to generate; none goes on to the end of the context.
    pub max_tokens: Option<usize>,
    /// Strings that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Tokens that end the answer, besides the model's own; they are not part of it.
    pub stop_tokens: Vec<u32>,
    /// How tokens are chosen.
    pub sampler: SamplerSettings,
    /// Reports the log-probability of each token, and of this many of the most probable ones.
    pub logprobs: Option<usize>,
    /// Goes on past the tokens with which the model ends its answer, as if they were ordinary.
    pub ignore_eos: bool,
}

/// A generated token.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// The token.
    pub id: u32,
    /// The text that can be shown now: complete characters that cannot be part of a stop string. It may
    /// belong to earlier tokens, and be empty.
    pub text: String,
    /// The log-probability of the token in the raw logits, where the settings ask for it.
    pub logprob: Option<f32>,
    /// The most probable tokens, best first, as many as the settings ask for.
    pub top: Vec<LogProb>,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's end of generation, or a stop token of the settings. The token is not part of the answer.
    Stop(u32),
    /// This stop string came up.
    StopString(String),
    /// The most tokens asked for, or the end of the context.
    Length,
    /// The caller cancelled.
    Cancelled,
}

impl FinishReason {
    /// The short name that APIs use: `stop`, `length` or `cancelled`.
    pub fn name(&self) -> &'static str {
        match self {
            FinishReason::Stop(_) | FinishReason::StopString(_) => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// What one row of logits led to.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A token; compute it to get the next logits.
    Token(Token),
    /// The end of the answer.
    Last(Last),
}

/// The last that is given out of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Last {
    /// The last token of the answer, unless the last one was already given out.
    pub token: Option<Token>,
    /// Text of earlier tokens that was held back for a stop string that did not come.
    pub rest: String,
    /// Why.
    pub reason: FinishReason,
}

/// An answer in the making.
#[derive(Debug)]
pub struct Generation<T: Text> {
    text: T,
    stops: StopStrings,
    sampler: Sampler,
    settings: GenerationSettings,
    constraint: Option<Constrained>,
    vocabulary: usize,
    generated: usize,
}

impl<T: Text> Generation<T> {
    /// Starts an answer to a prompt, whose tokens count for the penalties.
    pub fn new(
        settings: GenerationSettings,
        vocabulary: usize,
        prompt: &[u32],
        text: T,
    ) -> Result<Generation<T>> {
        let stops = StopStrings::new(settings.stop.clone())?;
        let unknown = settings.stop_tokens.iter().find(|&&token| token as usize >= vocabulary);
        if let Some(&token) = unknown {
            return Err(Error::UnknownToken { name: "stop_tokens", token, vocabulary });
        }
        let mut sampler = Sampler::new(settings.sampler.clone(), vocabulary)?;
        prompt.iter().for_each(|&token| sampler.accept(token));
        Ok(Generation { text, stops, sampler, settings, constraint: None, vocabulary, generated: 0 })
    }

    /// The same with a constraint on what the answer may say. It ends where the constraint lets it end, also where the
    /// settings ask to go on.
    pub fn constrained(self, constraint: Box<dyn Constraint>) -> Self {
        Generation { constraint: Some(Constrained::new(constraint, self.vocabulary)), ..self }
    }

    /// Whether a constraint has yet to say which tokens may come next. [`prepare`](Self::prepare) can then be called
    /// on another thread while the logits are computed.
    pub fn wants_preparation(&self) -> bool {
        self.constraint.is_some()
    }

    /// Has the constraint say which tokens may come next, which [`advance`](Self::advance) does otherwise.
    pub fn prepare(&mut self) {
        if let Some(constraint) = &mut self.constraint {
            constraint.prepare();
        }
    }

    /// How many tokens were generated.
    pub fn generated(&self) -> usize {
        self.generated
    }

    /// The seed of the sampler.
    pub fn seed(&self) -> u64 {
        self.sampler.seed()
    }

    /// Whether the answer has all the tokens that were asked for.
    pub fn is_full(&self) -> bool {
        self.settings.max_tokens.is_some_and(|most| self.generated >= most)
    }

    /// How many more tokens were asked for.
    pub fn remaining(&self) -> usize {
        self.settings.max_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.generated))
    }

    /// Chooses the next token from its logits. `last` says that there is no room to compute it, so that
    /// the answer must end with it.
    pub fn advance(&mut self, logits: &[f32], last: bool) -> Result<Next> {
        if self.is_full() {
            return Ok(Next::Last(self.end(FinishReason::Length)));
        }
        let mask = self.constraint.as_mut().map(Constrained::mask).transpose()?;
        let Some(most) = self.settings.logprobs else {
            let id = self.sampler.choose(logits, mask)?;
            return self.go_on(id, None, last, |_| vec![]);
        };
        let choice = self.sampler.sample(logits, mask)?;
        let top = |sampler: &mut Sampler| sampler.top_logprobs(logits, most).to_vec();
        self.go_on(choice.token, Some(choice.logprob), last, top)
    }

    /// How a device may choose the tokens in place of [`advance`](Self::advance); none when only the host
    /// can.
    pub fn rule(&self) -> Option<Rule> {
        let is_plain = self.settings.logprobs.is_none() && self.constraint.is_none();
        self.sampler.rule().filter(|_| is_plain)
    }

    /// The random bits of the next choice by the [`rule`](Self::rule); each choice takes its own, in order.
    pub fn random_bits(&mut self) -> u64 {
        self.sampler.random_bits()
    }

    /// Goes on with a token that was chosen by the [`rule`](Self::rule).
    pub fn advance_with(&mut self, token: u32, last: bool) -> Result<Next> {
        if self.is_full() {
            return Ok(Next::Last(self.end(FinishReason::Length)));
        }
        if token == NO_TOKEN {
            return Err(Error::NoCandidate);
        }
        self.go_on(token, None, last, |_| vec![])
    }

    fn go_on(
        &mut self,
        id: u32,
        logprob: Option<f32>,
        last: bool,
        top: impl FnOnce(&mut Sampler) -> Vec<LogProb>,
    ) -> Result<Next> {
        let ends = self.text.is_end(id) && (!self.settings.ignore_eos || self.constraint.is_some());
        if ends || self.settings.stop_tokens.contains(&id) {
            return Ok(Next::Last(self.end(FinishReason::Stop(id))));
        }
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(id)?;
        }
        let top = top(&mut self.sampler);
        self.sampler.accept(id);
        self.generated += 1;
        let passed = self.stops.push(&self.text.push(id));
        let mut token = Token { id, text: passed.text, logprob, top };
        if let Some(stop) = passed.stop {
            let reason = FinishReason::StopString(stop);
            return Ok(Next::Last(Last { token: Some(token), rest: String::new(), reason }));
        }
        if !last && !self.is_full() {
            return Ok(Next::Token(token));
        }
        let Last { rest, reason, .. } = self.end(FinishReason::Length);
        token.text.push_str(&rest);
        Ok(Next::Last(Last { token: Some(token), rest: String::new(), reason }))
    }

    /// Ends the answer for a reason of the caller's. The characters that complete the text may complete a
    /// stop string too, which then is the reason.
    pub fn end(&mut self, reason: FinishReason) -> Last {
        let passed = self.stops.push(&self.text.finish());
        let reason = passed.stop.map_or(reason, FinishReason::StopString);
        Last { token: None, rest: passed.text + &self.stops.finish(), reason }
    }
}
