//! What a person can ask of the sampler, and the ranges that make sense.

use crate::{Error, Result};

/// How the next token is chosen. See [`super::Sampler`] for the order in which these apply.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerSettings {
    /// Divides the scores before drawing: below 1 is bolder, above is wilder, 0 takes the best token.
    pub temperature: f32,
    /// Keeps only this many of the best tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest best tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Drops tokens less probable than this share of the best one's probability; 0 keeps all.
    pub min_p: f32,
    /// Keeps the tokens whose surprise is nearest the expected one, up to this sum; 1 keeps all.
    pub typical_p: f32,
    /// Positive scores of recent tokens are divided by this, negative ones multiplied; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the last tokens all three penalties look at; 0 turns them off.
    pub repeat_last_n: usize,
    /// Subtracted from a recent token's score once per occurrence.
    pub frequency_penalty: f32,
    /// Subtracted from a recent token's score once.
    pub presence_penalty: f32,
    /// Added to the logits of these tokens; negative infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Where the random numbers start; none takes another start each time.
    pub seed: Option<u64>,
}

impl Default for SamplerSettings {
    fn default() -> Self {
        SamplerSettings {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

impl SamplerSettings {
    /// Always the best token.
    pub fn greedy() -> Self {
        SamplerSettings { temperature: 0.0, ..Self::default() }
    }

    /// Draws from the model's own distribution: temperature 1 and no filter.
    pub fn plain() -> Self {
        SamplerSettings { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Self::default() }
    }

    /// Checks every value against its range and every biased token against the vocabulary.
    pub fn validate(&self, vocabulary: usize) -> Result<()> {
        let share = |x: f32| (0.0..=1.0).contains(&x);
        let checks = [
            (
                "temperature",
                self.temperature,
                self.temperature >= 0.0 && self.temperature.is_finite(),
                "0 or more",
            ),
            ("top_p", self.top_p, share(self.top_p), "from 0 to 1"),
            ("min_p", self.min_p, share(self.min_p), "from 0 to 1"),
            ("typical_p", self.typical_p, share(self.typical_p), "from 0 to 1"),
            (
                "repeat_penalty",
                self.repeat_penalty,
                self.repeat_penalty > 0.0 && self.repeat_penalty.is_finite(),
                "more than 0",
            ),
            (
                "frequency_penalty",
                self.frequency_penalty,
                self.frequency_penalty.is_finite(),
                "a finite number",
            ),
            ("presence_penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a finite number"),
        ];
        for (name, value, valid, expected) in checks {
            if !valid {
                return Err(Error::Setting { name, value, expected });
            }
        }
        for &(token, bias) in &self.logit_bias {
            if token as usize >= vocabulary {
                return Err(Error::UnknownToken { name: "logit_bias", token, vocabulary });
            }
            if !bias.is_finite() && bias != f32::NEG_INFINITY {
                return Err(Error::Setting {
                    name: "logit_bias",
                    value: bias,
                    expected: "a finite number, or negative infinity to ban the token",
                });
            }
        }
        Ok(())
    }
}
