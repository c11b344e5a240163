//! An executor, its KV pages and state slots, shared by any number of sequences.
//!
//! Everything is one kind of step: some pending tokens of some sequences. A prompt is computed in chunks of
//! at most the executor's rows; only rows that a caller will read produce logits.

use std::ops::Range;

use gleed_model::arithmetic::PAGE;
use gleed_model::executor::Observer;
use gleed_model::groups::least;
use gleed_model::numbers::row_without_numbers;
use gleed_model::program::{AdapterInfo, Output};
use gleed_model::{Batch, Executor, Row};

use crate::held::PageCopy;
use crate::states::States;
use crate::{Error, PagePool, Result, Sequence, SlotPool};

/// What one sequence contributes to a step.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// How many of its pending tokens to compute.
    pub rows: usize,
    /// The positions, of those computed, whose logits will be read.
    pub logits: Range<usize>,
    /// How many of the rows, from the last, are guesses that may be taken back.
    pub guesses: usize,
}

impl<'a> Turn<'a> {
    /// The next `rows` pending tokens, or all if fewer, with the logits after the last pending token when it
    /// is among them.
    pub fn next(sequence: &'a mut Sequence, rows: usize) -> Self {
        let rows = rows.min(sequence.pending().len());
        let length = sequence.tokens().len();
        Turn { sequence, rows, logits: length.saturating_sub(1)..length, guesses: 0 }
    }
}

/// Runs sequences on an executor.
pub struct Engine {
    pub(crate) executor: Box<dyn Executor>,
    /// One for each page group of the program.
    pub(crate) pools: Vec<PagePool>,
    /// Where the program has recurrent layers.
    pub(crate) slots: Option<SlotPool>,
    pub(crate) batch: Batch,
}

impl Engine {
    /// State slots that one sequence uses when none are scarce; two are the least that it can do with.
    pub const SLOTS: usize = States::MOST;

    /// Takes over an executor, all of whose pages and state slots are free.
    pub fn new(executor: Box<dyn Executor>) -> Self {
        let pools = executor.page_groups().iter().map(|group| PagePool::of(*group)).collect();
        let is_recurrent = !executor.program().states.is_empty();
        let slots = is_recurrent.then(|| SlotPool::new(executor.slot_count()));
        Engine { executor, pools, slots, batch: Batch::default() }
    }

    /// The executor.
    pub fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    /// The most tokens a sequence can hold: the model's context, or the whole KV cache if that is less.
    pub fn context(&self) -> usize {
        let bound = |pool: &PagePool| match pool.window() {
            // Enough for any length: pages that the window has left are used again.
            Some(window) if pool.total() >= least(window, self.max_rows()) => usize::MAX,
            _ => pool.total() * PAGE,
        };
        self.pools.iter().map(bound).fold(self.executor.program().context, usize::min)
    }

    /// Entries of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.executor.program().vocabulary
    }

    /// The adapters that sequences may take.
    pub fn adapters(&self) -> &[AdapterInfo] {
        &self.executor.program().adapters
    }

    /// The most rows of one step.
    pub fn max_rows(&self) -> usize {
        self.executor.max_rows()
    }

    /// The state of the KV pages of layers that see the whole context.
    pub fn pages(&self) -> &PagePool {
        &self.pools[0]
    }

    /// The state of the KV pages of every [page group](gleed_model::groups::PageGroups) of the program.
    pub fn page_pools(&self) -> &[PagePool] {
        &self.pools
    }

    /// The state slots, where the program has recurrent layers.
    pub fn slots(&self) -> Option<&SlotPool> {
        self.slots.as_ref()
    }

    /// The logits of the `index`-th wanted row of the last step, one per vocabulary entry; empty when it had
    /// no such row.
    pub fn logits(&self, index: usize) -> &[f32] {
        self.executor.logits(index)
    }

    /// Refuses a model that gives vectors where logits are needed.
    pub(crate) fn must_give_logits(&self) -> Result<()> {
        match self.executor.program().output {
            Output::Logits => Ok(()),
            Output::Embedding(_) => Err(Error::NoLogits),
        }
    }

    /// Computes some pending tokens of some sequences in one batch. When it fails, for whatever reason, every
    /// sequence is as it was before: no token counts as computed, and what was reserved is given back. Logits that
    /// are NaN are a failure, which names the op they come from.
    pub fn step(&mut self, turns: &mut [Turn<'_>]) -> Result<()> {
        self.step_observed(turns, &mut ())
    }

    /// The same, seen by an observer op by op.
    pub(crate) fn step_observed(
        &mut self,
        turns: &mut [Turn<'_>],
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let result = self.try_step(turns, observer);
        for turn in turns {
            match result {
                Ok(()) => turn.sequence.advance_with_guesses(turn.rows, turn.guesses),
                Err(_) => turn.sequence.revert(),
            }
        }
        result
    }

    fn try_step(&mut self, turns: &mut [Turn<'_>], observer: &mut dyn Observer) -> Result<()> {
        if let Some(index) = turns.iter().position(|turn| !turn.sequence.is_of(&self.pools)) {
            return Err(Error::OtherEngine { index });
        }
        turns.iter_mut().for_each(|turn| turn.rows = turn.rows.min(turn.sequence.pending().len()));
        if let Some(slots) = &self.slots {
            reserve_states(slots, turns)?;
        }
        for PageCopy { group, from, to } in reserve_pages(&self.pools, turns)? {
            self.executor.copy_page(group, from, to);
        }
        self.batch.clear();
        for turn in turns.iter_mut() {
            let table = turn.sequence.add_to(&mut self.batch);
            if self.slots.is_some() {
                let states = turn.sequence.states();
                if let Some(slot) = states.current().filter(|_| turn.rows > 0) {
                    self.batch.read_state(table, slot);
                }
                states.saves().for_each(|(position, slot)| self.batch.save_state(table, position, slot));
            }
            let start = turn.sequence.computed();
            for (position, &token) in (start..).zip(&turn.sequence.pending()[..turn.rows]) {
                let wants_logits = turn.logits.contains(&position);
                self.batch.push(Row { table, position: position as u32, token, wants_logits });
            }
        }
        // A step that fails half-way has written at most the positions that were reserved for it, which no sequence
        // counts as computed.
        self.executor.step(&self.batch, observer)?;
        if let Some(row) = row_without_numbers(&*self.executor, &self.batch) {
            let Row { table, position, .. } = self.batch.rows()[row];
            return Err(self.source_of_nan(turns[table as usize].sequence, position as usize)?.into());
        }
        Ok(())
    }

    /// Takes pages and state slots for the next rows of a sequence, which a step then finds. All or nothing; the rows are
    /// given up with [`Sequence::revert`].
    pub(crate) fn reserve(&mut self, sequence: &mut Sequence, rows: usize) -> Result<()> {
        if let Some(slots) = &self.slots {
            sequence.reserve_states(slots, rows)?;
        }
        for PageCopy { group, from, to } in sequence.reserve(&self.pools, rows)? {
            self.executor.copy_page(group, from, to);
        }
        Ok(())
    }

    /// Computes all pending tokens of several sequences in one batch. `logits(i)` are then those after the
    /// last token of sequence `i`.
    pub fn step_many(&mut self, sequences: &mut [&mut Sequence]) -> Result<()> {
        if let Some(index) = sequences.iter().position(|s| s.pending().is_empty()) {
            return Err(Error::NothingPending { index });
        }
        let mut turns: Vec<Turn> = sequences.iter_mut().map(|s| Turn::next(s, usize::MAX)).collect();
        self.step(&mut turns)
    }

    /// Computes all pending tokens of one sequence, in chunks; `logits(0)` are then those after the last. When it
    /// fails, the chunks that were computed stay.
    fn compute(&mut self, sequence: &mut Sequence) -> Result<()> {
        let (length, context) = (sequence.tokens().len(), self.context());
        if length > context {
            return Err(Error::PromptTooLong { prompt: length, context });
        }
        let chunk = self.max_rows().max(1);
        while !sequence.pending().is_empty() {
            self.step(&mut [Turn::next(sequence, chunk)])?;
        }
        Ok(())
    }

    /// Appends tokens to a sequence and computes them; `logits(0)` are then those after the last. When it
    /// fails, the sequence holds what was computed.
    pub fn prefill(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<()> {
        sequence.extend(tokens);
        if sequence.pending().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let result = self.compute(sequence);
        sequence.discard_pending();
        result
    }

    /// Makes a sequence hold exactly `tokens` and computes only what it did not hold yet: all that follows
    /// their common beginning, and at least the last token. Returns how many were already there. When it
    /// fails, the sequence holds what was computed; a prompt that is refused leaves it as it was.
    pub fn sync(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<usize> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let context = self.context();
        if tokens.len() > context {
            return Err(Error::PromptTooLong { prompt: tokens.len(), context });
        }
        if !sequence.is_of(&self.pools) {
            return Err(Error::OtherEngine { index: 0 });
        }
        let kept = sequence.align(tokens);
        let result = self.compute(sequence);
        sequence.discard_pending();
        result.map(|()| kept)
    }
}

/// Makes sure that all rows of a step have pages. Where those of a window do not suffice, all its sequences give up the
/// ones that they keep to go back to. Returns what has to be copied.
fn reserve_pages(pools: &[PagePool], turns: &mut [Turn<'_>]) -> Result<Vec<PageCopy>> {
    let mut copies = Vec::new();
    for index in 0..turns.len() {
        let rows = turns[index].rows;
        match turns[index].sequence.reserve(pools, rows) {
            Ok(more) => copies.extend(more),
            Err(_) => {
                turns.iter_mut().for_each(|turn| turn.sequence.keep_last_pages());
                copies.extend(turns[index].sequence.reserve(pools, rows)?);
            }
        }
    }
    Ok(copies)
}

/// Makes sure that all states that a step leaves have slots. Where they do not suffice, all its sequences give up the
/// states that they keep to go back to: one that two of them share is free when both have.
fn reserve_states(slots: &SlotPool, turns: &mut [Turn<'_>]) -> Result<()> {
    for index in 0..turns.len() {
        let rows = turns[index].rows;
        if turns[index].sequence.reserve_states(slots, rows).is_err() {
            turns.iter_mut().for_each(|turn| turn.sequence.keep_last_state());
            turns[index].sequence.reserve_states(slots, rows)?;
        }
    }
    Ok(())
}
