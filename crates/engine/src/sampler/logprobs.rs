//! Log-probabilities of the raw logits: what the model itself believes, before any setting.

use super::exp::{largest, sum_exp};

/// A token and the log of its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogProb {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

/// The normaliser of one row of logits. A logit that is not a number counts as negative infinity, and
/// positive infinities share all the probability.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax {
    max: f32,
    /// ln Σ e^(logit - max).
    log_sum: f64,
}

impl LogSoftmax {
    /// Measures a row of logits, in one pass for the largest and one for the sum.
    pub fn new(logits: &[f32]) -> Self {
        let max = largest(logits);
        let sum = if max == f32::INFINITY {
            logits.iter().filter(|&&x| x == max).count() as f64
        } else {
            sum_exp(logits, max)
        };
        LogSoftmax { max, log_sum: sum.ln() }
    }

    /// The log-probability of a token with this logit.
    pub fn of(&self, logit: f32) -> f64 {
        if logit.is_nan() || logit == f32::NEG_INFINITY {
            f64::NEG_INFINITY
        } else if logit == self.max {
            -self.log_sum
        } else {
            f64::from(logit) - f64::from(self.max) - self.log_sum
        }
    }
}
