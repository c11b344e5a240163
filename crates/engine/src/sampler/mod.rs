//! Choosing the next token from the logits.
//!
//! The order is: logit bias, penalties, the mask of a constraint, then min-p, top-k, typical, top-p, then temperature and the draw.
//! Each filter sees the probabilities of what the ones before it left, at temperature 1: a high temperature
//! flattens the choice among good tokens and does not let bad ones in.

mod candidates;
mod exp;
mod logprobs;
mod penalties;
mod random;
mod settings;
#[cfg(test)]
mod tests;

pub use logprobs::{LogProb, LogSoftmax};
pub use random::Random;
pub use settings::SamplerSettings;

use gleed_model::choice::{self, Rule};

use crate::{Error, Result, TokenMask};
use candidates::Candidates;
use exp::largest;
use penalties::Penalties;

/// The token that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
    /// Its log-probability in the raw logits, before bias, penalties and temperature.
    pub logprob: f32,
}

/// Chooses tokens for one sequence. After the first call it allocates nothing.
///
/// A logit that is NaN counts as negative infinity, which means masked: such a token is never chosen.
/// Positive infinity wins over every finite logit.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: SamplerSettings,
    vocabulary: usize,
    seed: u64,
    random: Random,
    penalties: Penalties,
    /// ln(min_p) when min-p is on: how far below the best score a token may be.
    min_p_log: Option<f32>,
    /// The logits after bias and penalties, when there are any.
    scores: Vec<f32>,
    candidates: Candidates,
    /// What `top_logprobs` returns.
    top: Vec<LogProb>,
}

impl Sampler {
    /// A sampler over a vocabulary of this size.
    pub fn new(settings: SamplerSettings, vocabulary: usize) -> Result<Self> {
        settings.validate(vocabulary)?;
        let seed = settings.seed.unwrap_or_else(random::fresh_seed);
        // A greedy choice looks at no candidates.
        let room = if settings.temperature == 0.0 { 0 } else { vocabulary };
        Ok(Sampler {
            vocabulary,
            seed,
            random: Random::new(seed),
            penalties: Penalties::new(&settings),
            min_p_log: choice::lowest_difference(settings.min_p),
            scores: Vec::new(),
            candidates: Candidates::new(room),
            top: Vec::new(),
            settings,
        })
    }

    /// The seed in use, so that a run with a fresh one can be repeated.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Takes in a token of the sequence, prompt or answer, for the penalties.
    pub fn accept(&mut self, token: u32) {
        self.penalties.accept(token);
    }

    /// Chooses a token. It is not accepted yet.
    ///
    /// If bias or penalties push every score to negative infinity, the choice is the best logit that no
    /// bias bans and the mask allows; if there is none, the error is [`Error::NoCandidate`].
    pub fn sample(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Result<Choice> {
        let token = self.choose(logits, mask)?;
        let logprob = LogSoftmax::new(logits).of(logits[token as usize]) as f32;
        Ok(Choice { token, logprob })
    }

    /// The rule by which a device can make the same choices from the logits as they are; none when bias,
    /// penalties or typical sampling change them on the way.
    pub fn rule(&self) -> Option<Rule> {
        let SamplerSettings { temperature, top_k, top_p, min_p, typical_p, ref logit_bias, .. } =
            self.settings;
        if !logit_bias.is_empty() || !self.penalties.are_off() || (temperature > 0.0 && typical_p < 1.0) {
            return None;
        }
        Some(if temperature == 0.0 { Rule::GREEDY } else { Rule { temperature, top_k, top_p, min_p } })
    }

    /// The random bits of the next choice by the [`rule`](Self::rule): the same that [`choose`](Self::choose)
    /// would take, and like it, none of the stream for a greedy choice.
    pub fn random_bits(&mut self) -> u64 {
        if self.settings.temperature == 0.0 { 0 } else { self.random.next_u64() }
    }

    /// The `n` most probable tokens of the raw logits, best first; fewer when fewer are not masked.
    pub fn top_logprobs(&mut self, logits: &[f32], n: usize) -> &[LogProb] {
        self.top.clear();
        if n > 0 {
            let softmax = LogSoftmax::new(logits);
            self.candidates.fill(logits, f32::NEG_INFINITY, n);
            let ranked = self.candidates.ranked();
            self.top.extend(ranked.map(|(token, x)| LogProb { token, logprob: softmax.of(x) as f32 }));
        }
        &self.top
    }

    /// The same choice without its log-probability, which takes a look at every logit.
    pub fn choose(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Result<u32> {
        if let Some(certain) = self.narrow(logits, mask)? {
            return Ok(certain);
        }
        let drawn = self.candidates.draw(self.settings.temperature, |sum| self.random.below(sum));
        drawn.ok_or(Error::NoCandidate)
    }

    /// Returns the token if it is certain, or leaves in `candidates` those that can be drawn.
    fn narrow(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Result<Option<u32>> {
        if logits.len() != self.vocabulary {
            return Err(Error::WrongLogits { logits: logits.len(), vocabulary: self.vocabulary });
        }
        let changed = !self.settings.logit_bias.is_empty() || !self.penalties.is_empty() || mask.is_some();
        if changed {
            self.scores.clear();
            self.scores.extend_from_slice(logits);
            for &(token, bias) in &self.settings.logit_bias {
                self.scores[token as usize] += bias;
            }
            self.penalties.apply(&mut self.scores);
            if let Some(mask) = mask {
                mask.apply(&mut self.scores);
            }
        }
        let scores = if changed { &self.scores } else { logits };

        let Some((greedy, highest)) = best(scores) else {
            return self.fall_back(logits, mask).map(Some);
        };
        if self.settings.temperature == 0.0 {
            return Ok(Some(greedy));
        }
        let lowest = self.min_p_log.map_or(f32::NEG_INFINITY, |log| highest + log);
        self.candidates.fill(scores, lowest, self.settings.top_k);
        if self.settings.typical_p < 1.0 {
            self.candidates.typical(self.settings.typical_p);
        }
        if self.settings.top_p < 1.0 {
            self.candidates.top_p(self.settings.top_p);
        }
        Ok(None)
    }

    /// The best logit that is not banned, when no score is left.
    fn fall_back(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Result<u32> {
        self.scores.clear();
        self.scores.extend_from_slice(logits);
        for &(token, bias) in &self.settings.logit_bias {
            if bias == f32::NEG_INFINITY {
                self.scores[token as usize] = bias;
            }
        }
        if let Some(mask) = mask {
            mask.apply(&mut self.scores);
        }
        best(&self.scores).map(|(token, _)| token).ok_or(Error::NoCandidate)
    }
}

/// The first of the largest scores, passing over NaN and negative infinity.
fn best(scores: &[f32]) -> Option<(u32, f32)> {
    let highest = largest(scores);
    let index = scores.iter().position(|&x| x == highest && x > f32::NEG_INFINITY)?;
    Some((index as u32, highest))
}
