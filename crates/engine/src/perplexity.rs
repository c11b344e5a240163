//! How surprised a model is by a text.
//!
//! The method is the one other engines report, so that figures can be compared: windows of `context`
//! tokens, each computed from an empty sequence, its first token replaced by the beginning-of-sequence token
//! if the model uses one; only tokens of the second half are scored, as they have enough text before them.

use crate::engine::Turn;
use crate::{Engine, Error, LogSoftmax, Result, Sequence};

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerplexitySettings {
    /// Tokens per window.
    pub context: usize,
    /// The most windows to measure; none measures the whole text.
    pub chunks: Option<usize>,
    /// Replaces the first token of each window, for models that put it before every text.
    pub bos: Option<u32>,
}

/// The measure so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perplexity {
    /// e to the mean negative log-likelihood of the scored tokens.
    pub value: f64,
    /// The standard error of `value`.
    pub error: f64,
    /// The mean negative log-likelihood, in nats per token.
    pub nll: f64,
    /// Tokens scored.
    pub count: usize,
    /// Windows measured.
    pub chunk: usize,
    /// Windows there are to measure.
    pub chunks: usize,
}

/// The windows of `window` tokens that a text is cut into, at most `most` of them. A last one that is not full is left
/// out.
pub(crate) fn windows<'a>(
    engine: &Engine,
    tokens: &'a [u32],
    window: usize,
    most: Option<usize>,
) -> Result<impl ExactSizeIterator<Item = &'a [u32]> + use<'a>> {
    engine.must_give_logits()?;
    if window < 3 || window > engine.context() {
        return Err(Error::Window { window, context: engine.context() });
    }
    if tokens.len() < window || most == Some(0) {
        return Err(Error::TextTooShort { tokens: tokens.len(), window });
    }
    Ok(tokens.chunks_exact(window).take(most.unwrap_or(usize::MAX)))
}

/// Measures the perplexity of a text, reporting after every window. A last window that is not full is left
/// out. The tokens should begin as the model's prompts do (with its special tokens added).
pub fn perplexity(
    engine: &mut Engine,
    tokens: &[u32],
    settings: PerplexitySettings,
    mut progress: impl FnMut(&Perplexity),
) -> Result<Perplexity> {
    let windows = windows(engine, tokens, settings.context, settings.chunks)?;
    let chunks = windows.len();
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0);
    let mut result = Perplexity { value: 1.0, error: 0.0, nll: 0.0, count, chunk: 0, chunks };
    for (chunk, text) in windows.enumerate() {
        score(engine, text, settings.bos, |nll| {
            sum += nll;
            squares += nll * nll;
            count += 1;
        })?;
        let n = count as f64;
        let mean: f64 = sum / n;
        let variance: f64 = (squares / n - mean * mean).max(0.0);
        let error = if count > 1 { mean.exp() * (variance / (n - 1.0)).sqrt() } else { 0.0 };
        result = Perplexity { value: mean.exp(), error, nll: mean, count, chunk: chunk + 1, chunks };
        progress(&result);
    }
    Ok(result)
}

/// Computes one window and gives out the negative log-likelihoods of its second half: the logits at
/// positions `window/2 ..= window-2` against the tokens that follow them.
fn score(engine: &mut Engine, text: &[u32], bos: Option<u32>, mut each: impl FnMut(f64)) -> Result<()> {
    let first = text.len() / 2;
    let mut sequence = Sequence::default();
    sequence.push(bos.unwrap_or(text[0]));
    // The last token is only a target.
    sequence.extend(&text[1..text.len() - 1]);
    let rows = engine.max_rows().max(1);
    while !sequence.pending().is_empty() {
        let start = sequence.computed();
        engine.step(&mut [Turn { sequence: &mut sequence, rows, logits: first..text.len(), guesses: 0 }])?;
        for (index, position) in (start.max(first)..sequence.computed()).enumerate() {
            let logits = engine.logits(index);
            let logit = logits.get(text[position + 1] as usize).copied().unwrap_or(f32::NEG_INFINITY);
            each(-LogSoftmax::new(logits).of(logit));
        }
    }
    Ok(())
}
