//! Ways to compute the same rows: all in one step, in chunks, one at a time, some sequences beside others.

use std::collections::HashMap;
use std::ops::Range;

use gleed_model::Executor;
use gleed_model::slots::InTurn;

use super::{Random, VOCABULARY, batch};

/// `(sequence, position)`.
pub type Place = (usize, usize);

/// A way to compute all rows: a list of batches.
pub type Schedule = Vec<Vec<Place>>;

/// Three sequences and the KV pages that they share.
#[derive(Clone, Copy)]
pub struct Sequences {
    /// The first is the longest.
    pub lengths: [usize; 3],
    pub pages: usize,
}

fn places(sequence: usize, positions: Range<usize>) -> Vec<Place> {
    positions.map(|position| (sequence, position)).collect()
}

impl Sequences {
    /// All rows.
    pub fn count(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Everything in one step.
    pub fn whole(&self) -> Schedule {
        vec![(0..3).flat_map(|s| places(s, 0..self.lengths[s])).collect()]
    }

    /// `at_once` rows of the first sequence together, then all others one at a time, the sequences in turn.
    pub fn one_at_a_time(&self, at_once: usize) -> Schedule {
        let mut rest: Vec<Place> = self.whole().concat();
        rest.retain(|(sequence, position)| *sequence > 0 || *position >= at_once);
        rest.sort_by_key(|(sequence, position)| (*position, *sequence));
        let first = Some(places(0, 0..at_once)).filter(|places| !places.is_empty());
        first.into_iter().chain(rest.into_iter().map(|place| vec![place])).collect()
    }

    /// Chunks of the first sequence of these lengths in turn, the others beside them as they come.
    pub fn chunks(&self, lengths: &[usize]) -> Schedule {
        let (mut schedule, mut done) = (Schedule::new(), [0; 3]);
        let mut lengths = lengths.iter().cycle();
        while done[0] < self.lengths[0] {
            let mut rows = Vec::new();
            let length = *lengths.next().unwrap();
            // Other sequences come first now and then, so that rows are at other places of the batch.
            for sequence in if length.is_multiple_of(2) { [0, 1, 2] } else { [2, 1, 0] } {
                let count = if sequence == 0 { length } else { 1 + length % 3 };
                let end = self.lengths[sequence].min(done[sequence] + count);
                rows.extend(places(sequence, done[sequence]..end));
                done[sequence] = end;
            }
            schedule.push(rows);
        }
        let rest = (0..3).map(|s| places(s, done[s]..self.lengths[s]));
        schedule.extend(rest.filter(|places| !places.is_empty()));
        schedule
    }

    /// Runs a schedule and returns the logits of every `every`-th row.
    pub fn run(
        &self,
        executor: &mut dyn Executor,
        schedule: &Schedule,
        every: usize,
    ) -> HashMap<Place, Vec<f32>> {
        let mut random = Random::new(11);
        let tokens: HashMap<Place, u32> =
            self.whole().concat().into_iter().map(|place| (place, random.below(VOCABULARY) as u32)).collect();
        let (mut all, mut count, mut slots) = (HashMap::new(), 0, InTurn::default());
        for places in schedule {
            let row = |place: &Place| {
                count += 1;
                (place.0, place.1, tokens[place], count % every == 0)
            };
            let rows: Vec<_> = places.iter().map(row).collect();
            let mut batch = batch(&rows, self.lengths.len(), self.pages);
            slots.go_on(&mut batch);
            executor.step(&batch, &mut ()).unwrap();
            let found = batch.wanted().enumerate().map(|(i, row)| (places[row], executor.logits(i).to_vec()));
            all.extend(found);
        }
        assert_eq!((count, all.len()), (self.count(), count / every));
        all
    }
}
