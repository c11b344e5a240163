//! Decoding ahead: where the device chooses tokens itself, it computes some of them before the host has
//! looked at the first.
//!
//! Two links of a chain are always under way, so that the device works on one while the host handles the
//! tokens of the other. What was computed past the end of an answer is forgotten: its positions do not count
//! as computed, and whoever comes there next writes them anew.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::{NO_TOKEN, Rule};
use gleed_model::{Row, StepError};

use crate::generation::{FinishReason, Generation, Last, Next};
use crate::{Engine, Event, Result, Sequence, Text};

/// How long the links of a chain are: short enough that text comes smoothly, long enough that the host's part
/// of a link does not matter.
#[derive(Debug, Clone)]
pub struct Pace {
    steps: usize,
}

impl Pace {
    /// The most steps of a link.
    pub const MOST: usize = 8;

    /// How long the tokens of a link may take, all of which are seen at once: a frame of a film.
    const BURST: Duration = Duration::from_millis(40);

    /// Steps of the next link.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Takes in how long a link of so many steps took. Links at most double, because the first ones may
    /// have been lucky.
    pub fn collected(&mut self, steps: usize, took: Duration) {
        let each = took.as_secs_f64() / steps.max(1) as f64;
        // Too fast for the clock is infinitely many, which the most bounds.
        let fitting = (Pace::BURST.as_secs_f64() / each) as usize;
        self.steps = fitting.min(2 * self.steps).clamp(1, Pace::MOST);
    }
}

impl Default for Pace {
    fn default() -> Self {
        Pace { steps: 1 }
    }
}

/// Nobody asks an executor to decode ahead that cannot do it.
pub(crate) const NO_CHAIN: StepError = StepError::Chain("the executor has none");

impl Engine {
    /// Whether the device can choose by this rule itself.
    pub(crate) fn can_decode_ahead(&mut self, rule: &Rule) -> bool {
        self.executor.chain().is_some_and(|chain| chain.most_rows() > 0 && chain.follows(rule))
    }

    /// Goes on from one pending token to the end of the answer.
    pub(crate) fn decode_ahead<T: Text>(
        &mut self,
        sequence: &mut Sequence,
        generation: &mut Generation<T>,
        rule: Rule,
        cancel: &AtomicBool,
        mut on_event: impl FnMut(Event),
    ) -> Result<Last> {
        let (mut pace, mut clock) = (Pace::default(), Instant::now());
        // The steps of each link under way.
        let mut links: VecDeque<usize> = VecDeque::with_capacity(IN_FLIGHT);
        let mut tokens = Vec::with_capacity(Pace::MOST);
        loop {
            while links.len() < IN_FLIGHT {
                let ahead: usize = links.iter().sum();
                let positions = self.context().min(sequence.capacity(&self.pools));
                let room = positions.saturating_sub(sequence.computed()).min(generation.remaining());
                let room = room.saturating_sub(ahead);
                let steps = match pace.steps().min(room) {
                    // There is no answer without this step; what it lacks is its error.
                    0 if links.is_empty() => 1,
                    0 => break,
                    steps => steps,
                };
                let randoms: Vec<u64> = (0..steps).map(|_| generation.random_bits()).collect();
                self.submit_link(sequence, ahead, rule, &randoms)?;
                links.push_back(steps);
            }
            tokens.clear();
            self.chain()?.collect(&mut tokens)?;
            let steps = links.pop_front().unwrap_or(1);
            pace.collected(steps, std::mem::replace(&mut clock, Instant::now()).elapsed());
            for &token in &tokens {
                if token == NO_TOKEN {
                    return Err(self.why_no_token(sequence));
                }
                sequence.advance(1);
                let last = sequence.computed() >= self.context();
                match generation.advance_with(token, last)? {
                    Next::Last(end) => return Ok(end),
                    Next::Token(token) => {
                        sequence.push(token.id);
                        on_event(Event::Token(token));
                    }
                }
                if cancel.load(Ordering::Relaxed) {
                    return Ok(generation.end(FinishReason::Cancelled));
                }
            }
        }
    }

    /// Hands over a link of one sequence, as many steps as there are random numbers, `ahead` positions after
    /// its pending token.
    fn submit_link(
        &mut self,
        sequence: &mut Sequence,
        ahead: usize,
        rule: Rule,
        randoms: &[u64],
    ) -> Result<()> {
        let steps = randoms.len();
        if self.reserve(sequence, ahead + steps).is_err() {
            sequence.keep_least();
            self.reserve(sequence, ahead + steps)?;
        }
        self.batch.clear();
        let table = self.batch.add_tables(sequence.tables());
        let position = (sequence.computed() + ahead) as u32;
        self.batch.push(Row { table, position, token: sequence.pending()[0], wants_logits: true });
        let link = Link { batch: &self.batch, continues: ahead > 0, steps, rules: &[rule], randoms };
        let chain = self.executor.chain().ok_or(NO_CHAIN)?;
        Ok(chain.submit(link)?)
    }

    pub(crate) fn chain(&mut self) -> Result<&mut dyn Chain> {
        Ok(self.executor.chain().ok_or(NO_CHAIN)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_grow_while_they_are_short() {
        let mut pace = Pace::default();
        let mut all = vec![];
        for _ in 0..5 {
            all.push(pace.steps());
            pace.collected(pace.steps(), Duration::from_micros(900) * pace.steps() as u32);
        }
        assert_eq!(all, [1, 2, 4, 8, 8]);
        pace.collected(8, Duration::ZERO);
        assert_eq!(pace.steps(), 8);
        // 10 ms a token: four of them are a burst. 100 ms: one at a time.
        pace.collected(8, Duration::from_millis(80));
        assert_eq!(pace.steps(), 4);
        pace.collected(4, Duration::from_millis(400));
        assert_eq!(pace.steps(), 1);
    }
}
