//! Log-probabilities of the raw logits: what the model itself believes, before any setting.

use std::cmp::Ordering;

use super::exp::sum_exp;

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
        let max = logits.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
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

/// The order of all selections: best score first, the lower token first among equals.
pub(super) fn better(a: (f32, u32), b: (f32, u32)) -> Ordering {
    b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
}

/// Writes the `n` most probable tokens to `out`, best first; `scratch` holds the whole vocabulary.
pub(super) fn top(logits: &[f32], n: usize, scratch: &mut Vec<(f32, u32)>, out: &mut Vec<LogProb>) {
    out.clear();
    scratch.clear();
    let numbers = logits.iter().zip(0u32..).filter(|(x, _)| **x > f32::NEG_INFINITY);
    scratch.extend(numbers.map(|(&x, token)| (x, token)));
    let n = n.min(scratch.len());
    if n == 0 {
        return;
    }
    scratch.select_nth_unstable_by(n - 1, |&a, &b| better(a, b));
    scratch[..n].sort_unstable_by(|&a, &b| better(a, b));
    let softmax = LogSoftmax::new(logits);
    let best = scratch[..n].iter();
    out.extend(best.map(|&(x, token)| LogProb { token, logprob: softmax.of(x) as f32 }));
}
