//! Texts to vectors: many texts in one step, and each vector depends on its own text alone.

use gleed_model::arithmetic::{PAGE, dot};
use gleed_model::program::{Output, Pooling};

use crate::engine::Turn;
use crate::{Engine, Error, PagePool, Result, Sequence};

impl Engine {
    /// The vector of each text, of its tokens with all that the tokenizer puts around them. As many texts as there is
    /// room for are computed together, which changes how long it takes and nothing else.
    pub fn embed(&mut self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let Output::Embedding(pooling) = self.executor.program().output else {
            return Err(Error::NoEmbedding);
        };
        let limit = self.longest_text();
        for (index, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::EmptyText { index });
            }
            if text.len() > limit {
                return Err(Error::TextTooLong { index, tokens: text.len(), limit });
            }
        }
        let mut vectors = Vec::with_capacity(texts.len());
        while let rest = &texts[vectors.len()..]
            && !rest.is_empty()
        {
            // One that does not fit into a step by itself is computed in several, if the model allows it.
            let count = self.fitting(rest).max(1);
            self.embed_together(&rest[..count], pooling, &mut vectors)?;
        }
        Ok(vectors)
    }

    /// The most tokens that a text may have to become a vector.
    pub fn longest_text(&self) -> usize {
        let whole = self.executor.program().needs_whole_sequences();
        if whole { self.context().min(self.max_rows()) } else { self.context() }
    }

    /// How many of some texts, from the first on, one step has rows and pages for.
    fn fitting(&self, texts: &[&[u32]]) -> usize {
        let (mut rows, mut pages) = (0, 0);
        let free = self.pools.iter().map(PagePool::free).min().unwrap_or(0);
        let fits = |text: &&&[u32]| {
            rows += text.len();
            pages += text.len().div_ceil(PAGE);
            rows <= self.max_rows() && pages <= free
        };
        texts.iter().take_while(fits).count()
    }

    /// Texts in one step, or a long one in several.
    fn embed_together(
        &mut self,
        texts: &[&[u32]],
        pooling: Pooling,
        vectors: &mut Vec<Vec<f32>>,
    ) -> Result<()> {
        let mut sequences: Vec<Sequence> = texts.iter().map(|_| Sequence::default()).collect();
        sequences.iter_mut().zip(texts).for_each(|(sequence, text)| sequence.extend(text));
        let most = self.max_rows().max(1);
        while sequences.iter().any(|sequence| !sequence.pending().is_empty()) {
            let turn = |sequence| -> Turn {
                let sequence: &mut Sequence = sequence;
                let wanted = pooling.wanted(sequence.tokens().len());
                Turn { sequence, rows: most, logits: wanted..wanted + 1, guesses: 0 }
            };
            let mut turns: Vec<Turn> = sequences.iter_mut().map(turn).collect();
            self.step(&mut turns)?;
            let count = (0..texts.len()).take_while(|index| !self.logits(*index).is_empty()).count();
            vectors.extend((0..count).map(|index| self.logits(index).to_vec()));
        }
        Ok(())
    }
}

/// Scales a vector to length 1; one of zeros stays as it is.
pub fn normalize(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
}
