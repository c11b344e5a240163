//! Guesses of a smaller model with the same vocabulary.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::MOST_GUESSES;
use crate::engine::Turn;
use crate::prefix::PrefixCache;
use crate::{Adapters, Engine, Error, RequestId, Result, Sequence};

/// A smaller model that guesses what a larger one will say.
pub struct Draft {
    engine: Engine,
    /// What it has read of each request.
    sequences: BTreeMap<RequestId, Sequence>,
    /// What it has read of requests that are over: the next turn of a conversation begins with it.
    earlier: PrefixCache,
}

/// What a draft is asked: a request, its tokens so far, and how many tokens to guess.
pub(crate) type Question<'a> = (RequestId, &'a [u32], usize);

impl Draft {
    /// A draft with an engine of its own.
    pub fn new(engine: Engine) -> Self {
        Draft { engine, sequences: BTreeMap::new(), earlier: PrefixCache::default() }
    }

    /// Refuses to guess for a model with another vocabulary.
    pub(crate) fn must_fit(&self, vocabulary: usize) -> Result<()> {
        self.engine.must_give_logits()?;
        match self.engine.vocabulary() {
            own if own == vocabulary => Ok(()),
            own => Err(Error::OtherVocabulary { draft: own, model: vocabulary }),
        }
    }

    /// Leaves what it has read of all requests but some to later ones.
    pub(crate) fn keep(&mut self, is_wanted: impl Fn(RequestId) -> bool) {
        let all = std::mem::take(&mut self.sequences);
        let (wanted, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(id, _)| is_wanted(*id));
        self.sequences = wanted;
        over.into_values().for_each(|sequence| self.earlier.insert(sequence));
    }

    /// The likeliest next tokens of each request. Fewer or none where a prompt is long and not read yet, or where there is
    /// no room: then nothing is guessed, and nothing is wrong. Also how long it took to read more than the last few
    /// tokens.
    pub(crate) fn guess(&mut self, questions: &[Question<'_>]) -> (Vec<Vec<u32>>, Duration) {
        let mut reading = Duration::ZERO;
        let mut guesses: Vec<Vec<u32>> = questions.iter().map(|_| vec![]).collect();
        for (id, tokens, _) in questions {
            let sequence = self
                .sequences
                .entry(*id)
                .or_insert_with(|| self.earlier.find(&Adapters::default(), tokens).sequence);
            if tokens.len() < self.engine.context() {
                sequence.align(tokens);
            }
        }
        let most = questions.iter().map(|question| question.2).max().unwrap_or(0);
        for step in 0..most {
            let wanted =
                |question: &Question| question.2 > step && question.1.len() + step < self.engine.context();
            let asked: Vec<(usize, RequestId)> = questions
                .iter()
                .enumerate()
                .filter(|(index, question)| wanted(question) && guesses[*index].len() == step)
                .map(|(index, question)| (index, question.0))
                .collect();
            let mut left = self.engine.max_rows();
            let (mut turns, mut ready): (Vec<Turn>, Vec<usize>) = (vec![], vec![]);
            for (id, sequence) in &mut self.sequences {
                let Some((index, _)) = asked.iter().find(|asked| asked.1 == *id) else { continue };
                let rows = sequence.pending().len().min(left);
                left -= rows;
                if rows > 0 {
                    if rows == sequence.pending().len() {
                        ready.push(*index);
                    }
                    turns.push(Turn::next(sequence, rows));
                }
            }
            if turns.is_empty() {
                break;
            }
            let (start, is_reading) = (Instant::now(), turns.iter().any(|turn| turn.rows > MOST_GUESSES + 1));
            let mut done = self.engine.step(&mut turns);
            while matches!(done, Err(Error::NoPages { .. } | Error::NoSlots { .. })) && self.earlier.shrink()
            {
                done = self.engine.step(&mut turns);
            }
            if is_reading {
                reading += start.elapsed();
            }
            if done.is_err() {
                // What it has read of others is given up for those that go on.
                self.sequences.clear();
                break;
            }
            for (row, index) in ready.into_iter().enumerate() {
                let Some(token) = likeliest(self.engine.logits(row)) else { continue };
                guesses[index].push(token);
                if let Some(sequence) = self.sequences.get_mut(&questions[index].0) {
                    sequence.push(token);
                }
            }
        }
        (guesses, reading)
    }
}

/// The first of the largest logits.
fn likeliest(logits: &[f32]) -> Option<u32> {
    let best = logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some(best.0 as u32)
}
