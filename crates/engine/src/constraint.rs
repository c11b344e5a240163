//! What an answer may say: a grammar, seen from the sampler.

use crate::Result;

/// Decides which tokens may come next in one answer.
///
/// The engine asks for the mask once for every token, on another thread while the logits are computed, then takes in
/// the token that was chosen. A constraint whose text is complete allows the tokens with which the model ends its
/// answer; where nothing may follow, only those.
pub trait Constraint: Send {
    /// Writes which tokens may come next into a mask of the vocabulary's size, all of whose tokens are forbidden. An
    /// error ends the answer.
    fn allow(&mut self, mask: &mut TokenMask) -> Result<()>;

    /// Takes in the next token, one that the mask allows.
    fn accept(&mut self, token: u32) -> Result<()>;
}

/// A set of tokens of a vocabulary, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
    vocabulary: usize,
}

impl TokenMask {
    /// A mask that allows no token.
    pub fn none(vocabulary: usize) -> Self {
        TokenMask { words: vec![0; vocabulary.div_ceil(32)], vocabulary }
    }

    /// Entries of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Allows a token; one that is not in the vocabulary is passed over.
    pub fn allow(&mut self, token: u32) {
        if (token as usize) < self.vocabulary {
            self.words[token as usize / 32] |= 1 << (token % 32);
        }
    }

    /// Allows the tokens of a set in the same form: bit `i` of word `w` is token `32 * w + i`. What is past the
    /// vocabulary is passed over.
    pub fn allow_words(&mut self, words: &[u32]) {
        self.words.iter_mut().zip(words).for_each(|(own, more)| *own |= more);
        let past = self.words.len() * 32 - self.vocabulary;
        if let Some(last) = self.words.last_mut() {
            *last &= u32::MAX >> past;
        }
    }

    /// Whether a token may come.
    pub fn allows(&self, token: u32) -> bool {
        self.words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Forbids all tokens again.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Makes the scores of all forbidden tokens negative infinity.
    pub(crate) fn apply(&self, scores: &mut [f32]) {
        for (scores, word) in scores.chunks_mut(32).zip(&self.words) {
            if *word == u32::MAX {
                continue;
            }
            let forbidden = scores.iter_mut().enumerate().filter(|(bit, _)| word >> bit & 1 == 0);
            forbidden.for_each(|(_, score)| *score = f32::NEG_INFINITY);
        }
    }
}

/// A constraint with the mask of the next token.
pub(crate) struct Constrained {
    constraint: Box<dyn Constraint>,
    mask: TokenMask,
    /// Whether the mask is that of the next token, or what came of asking for it.
    ready: Option<Result<()>>,
}

impl Constrained {
    pub(crate) fn new(constraint: Box<dyn Constraint>, vocabulary: usize) -> Self {
        Constrained { constraint, mask: TokenMask::none(vocabulary), ready: None }
    }

    /// Asks which tokens may come next, if that is not known yet.
    pub(crate) fn prepare(&mut self) {
        if self.ready.is_none() {
            self.mask.clear();
            self.ready = Some(self.constraint.allow(&mut self.mask));
        }
    }

    /// Which tokens may come next.
    pub(crate) fn mask(&mut self) -> Result<&TokenMask> {
        self.prepare();
        self.ready.clone().unwrap_or(Ok(())).map(|()| &self.mask)
    }

    /// Takes in the next token.
    pub(crate) fn accept(&mut self, token: u32) -> Result<()> {
        self.ready = None;
        self.constraint.accept(token)
    }
}

impl std::fmt::Debug for Constrained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Constrained").field("ready", &self.ready).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_a_set_of_tokens() {
        for vocabulary in [0, 1, 31, 32, 33, 100] {
            let mut mask = TokenMask::none(vocabulary);
            let tokens = [0, 5, 31, 32, 63, 64, 99, 100, 127, u32::MAX];
            tokens.iter().for_each(|&token| mask.allow(token));
            let truth = |token: u32| tokens.contains(&token) && (token as usize) < vocabulary;
            assert!((0..200).all(|token| mask.allows(token) == truth(token)), "{vocabulary}");
            let mut scores = vec![1.0; vocabulary];
            mask.apply(&mut scores);
            assert!((0u32..).zip(&scores).all(|(token, score)| (*score == 1.0) == truth(token)));
            mask.clear();
            assert!((0..200).all(|token| !mask.allows(token)));
            mask.allow_words(&[u32::MAX; 9]);
            assert!((0..200).all(|token| mask.allows(token) == ((token as usize) < vocabulary)));
        }
    }
}
