//! A run of tokens and the KV pages that hold what was computed of them.
//!
//! Forks share pages. A page is copied when a sequence is about to write into it while others hold it, so a
//! fork costs nothing until the two part, and then at most one page.

use gleed_model::Batch;
use gleed_model::arithmetic::PAGE;

use crate::held::{HeldPages, PageCopy};
use crate::states::States;
use crate::{Adapters, Error, PagePool, Result, SlotPool};

/// Tokens, of which the first [`computed`](Sequence::computed) have their keys and values in the cache.
///
/// It holds pages of the engine that it was first computed with, and no other engine takes it while it has any.
/// Dropping it gives them back.
#[derive(Debug, Default)]
pub struct Sequence {
    tokens: Vec<u32>,
    /// Its pages in each page group of the engine; none before it is first computed.
    groups: Vec<HeldPages>,
    /// What it holds of recurrent layers.
    states: States,
    computed: usize,
    /// Where the last step of several rows ended.
    prompt_end: usize,
    /// What it is computed with.
    adapters: Adapters,
}

impl Sequence {
    /// An empty one that takes these scales of adapters; the default one takes what the model says.
    pub fn adapted(adapters: Adapters) -> Sequence {
        Sequence { adapters, ..Sequence::default() }
    }

    /// How much of each adapter it takes.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// All tokens, computed and pending.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens, from the first, are computed.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// The tokens that the next steps will compute.
    pub fn pending(&self) -> &[u32] {
        &self.tokens[self.computed..]
    }

    /// The page table of the layers that see the whole context.
    pub fn pages(&self) -> &[u32] {
        self.group_pages(0)
    }

    /// The page table of a page group, see [`PageGroups`](gleed_model::groups::PageGroups). Pages that a window has left
    /// are [missing](gleed_model::groups::NO_PAGE).
    pub fn group_pages(&self, group: usize) -> &[u32] {
        self.groups.get(group).map_or(&[], HeldPages::table)
    }

    /// The page tables of all groups.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &[u32]> {
        self.groups.iter().map(HeldPages::table)
    }

    /// Adds its page tables and what it says of adapters to a batch. Returns the number of its table.
    pub(crate) fn add_to(&self, batch: &mut Batch) -> u32 {
        let table = batch.add_tables(self.tables());
        self.adapters.tell(batch, table);
        table
    }

    /// Adds a pending token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }

    /// Adds pending tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Forgets the pending tokens.
    pub fn discard_pending(&mut self) {
        self.tokens.truncate(self.computed);
    }

    /// Keeps only the first `length` tokens and the pages that they need. Where the model has recurrent layers or layers
    /// that see only a window, the last of them may be pending afterwards: a state cannot be cut, and pages that a window
    /// has left are gone. What was kept of either may be of fewer tokens, or of none.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.computed = self.reachable(length);
        self.states.truncate(self.computed);
        self.prompt_end = self.prompt_end.min(self.computed);
        self.groups.iter_mut().for_each(|group| group.truncate(self.computed));
    }

    /// How many of the first `length` tokens would be computed if it were cut there.
    pub(crate) fn reachable(&self, length: usize) -> usize {
        let mut most = self.computed.min(length);
        loop {
            let state = if self.states.is_empty() { most } else { self.states.last_within(most) };
            let fewer = self.groups.iter().fold(state, |most, group| group.reachable(most));
            if fewer == most {
                return most;
            }
            most = fewer;
        }
    }

    /// Whether it can go on from any of its tokens.
    pub(crate) fn can_be_cut_anywhere(&self) -> bool {
        self.states.is_empty() && self.groups.iter().all(|group| !group.has_window())
    }

    /// Another sequence with the same computed tokens. Nothing is copied until one of them goes on.
    pub fn fork(&self) -> Sequence {
        let groups = self.groups.iter().map(|group| group.share(self.computed)).collect();
        let (tokens, states) = (self.tokens[..self.computed].to_vec(), self.states.share());
        let (computed, prompt_end, adapters) = (self.computed, self.prompt_end, self.adapters.clone());
        Sequence { tokens, groups, states, computed, prompt_end, adapters }
    }

    /// Whether it can be computed with the pages of these pools.
    pub(crate) fn is_of(&self, pools: &[PagePool]) -> bool {
        self.groups.iter().zip(pools).all(|(group, pool)| group.is_of(pool))
    }

    /// Makes sure that the next `rows` positions have pages of the pools that no other sequence holds, until the rows
    /// are done ([`advance`](Self::advance)) or given up ([`revert`](Self::revert)). All or nothing; the copies that it
    /// may ask for must happen before the step.
    pub(crate) fn reserve(&mut self, pools: &[PagePool], rows: usize) -> Result<Vec<PageCopy>> {
        self.groups.resize_with(pools.len(), HeldPages::default);
        for (group, pool) in self.groups.iter().zip(pools) {
            let (needed, free) = (group.missing(self.computed, rows), pool.free());
            if needed > free {
                return Err(Error::NoPages { needed, free, total: pool.total() });
            }
        }
        let mut copies = Vec::new();
        for (number, (group, pool)) in self.groups.iter_mut().zip(pools).enumerate() {
            let copy = group.reserve(pool, self.computed, rows)?;
            copies.extend(copy.map(|(from, to)| PageCopy { group: number, from, to }));
        }
        Ok(copies)
    }

    /// Makes sure that the states of recurrent layers that the next `rows` positions leave have slots of the pool.
    pub(crate) fn reserve_states(&mut self, pool: &SlotPool, rows: usize) -> Result<()> {
        self.states.reserve(pool, self.computed, rows)
    }

    /// Gives up the states of recurrent layers that it could go back to.
    pub(crate) fn keep_last_state(&mut self) {
        self.states.keep_last();
    }

    /// Gives up the pages that windows have left and that are kept to go back.
    pub(crate) fn keep_last_pages(&mut self) {
        self.groups.iter_mut().for_each(|group| group.keep_last(self.computed));
    }

    /// Gives up all that it only keeps to go back to.
    pub(crate) fn keep_least(&mut self) {
        self.keep_last_pages();
        self.keep_last_state();
    }

    /// Pages that its next rows would take in the layers that see the whole context.
    pub(crate) fn missing_pages(&self, rows: usize) -> usize {
        self.groups.first().map_or(rows.div_ceil(PAGE), |group| group.missing(self.computed, rows))
    }

    /// What it holds of recurrent layers.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Gives back everything that was reserved since rows were last done.
    pub(crate) fn revert(&mut self) {
        self.states.revert();
        self.groups.iter_mut().for_each(|group| group.revert(self.computed));
    }

    /// Marks the next `rows` pending tokens as computed.
    pub(crate) fn advance(&mut self, rows: usize) {
        self.advance_with_guesses(rows, 0);
    }

    /// The same where the last of the tokens are guesses, so that it may be cut after any of them.
    pub(crate) fn advance_with_guesses(&mut self, rows: usize, guesses: usize) {
        self.computed += rows;
        if rows - guesses > 1 {
            self.prompt_end = self.computed - guesses;
        }
        self.states.advance(rows, guesses);
        self.groups.iter_mut().for_each(|group| group.advance(self.computed, self.prompt_end));
        debug_assert!(self.computed <= self.tokens.len());
        debug_assert!(self.tables().all(|pages| self.computed <= pages.len() * PAGE));
    }

    /// Makes the sequence hold exactly `tokens`, keeping what is computed of their common beginning and
    /// leaving at least the last token pending. Returns how many tokens are computed.
    pub(crate) fn align(&mut self, tokens: &[u32]) -> usize {
        let held = &self.tokens[..self.computed];
        let common = held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = common.min(tokens.len().saturating_sub(1));
        self.truncate(kept);
        self.extend(&tokens[kept..]);
        self.computed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::slice::from_ref;

    use super::*;
    use crate::sampler::Random;

    /// A sequence beside what it should hold, position by position.
    struct Pair {
        sequence: Sequence,
        truth: Vec<u32>,
    }

    /// Writes pending tokens as an executor would: (page, slot) → token. One that fails writes something else.
    fn compute(
        pair: &mut Pair,
        pool: &PagePool,
        store: &mut HashMap<(u32, usize), u32>,
        rows: usize,
        fails: bool,
    ) -> bool {
        let copies = match pair.sequence.reserve(from_ref(pool), rows) {
            Ok(copies) => copies,
            Err(error) => {
                let Error::NoPages { needed, free, .. } = error else { panic!("{error}") };
                assert!(needed > free);
                return false;
            }
        };
        for PageCopy { from, to, .. } in copies {
            for slot in 0..PAGE {
                match store.get(&(from, slot)).copied() {
                    Some(token) => store.insert((to, slot), token),
                    None => store.remove(&(to, slot)),
                };
            }
        }
        for row in 0..rows {
            let position = pair.sequence.computed + row;
            let page = pair.sequence.pages()[position / PAGE];
            assert_eq!(pool.references(page), 1, "writes into a shared page");
            store.insert((page, position % PAGE), pair.sequence.tokens[position] ^ u32::from(fails));
        }
        match fails {
            false => pair.sequence.advance(rows),
            true => pair.sequence.revert(),
        }
        !fails
    }

    #[test]
    fn random_operations_agree_with_plain_lists() {
        let mut random = Random::new(3);
        let (mut full, mut copies) = (0, 0);
        for _ in 0..60 {
            let total = 1 + random.below(24) as usize;
            let pool = PagePool::new(total);
            let mut store = HashMap::new();
            let mut pairs: Vec<Pair> = vec![];
            for step in 0..300u32 {
                let pick = if pairs.is_empty() { 0 } else { random.below(pairs.len() as u64) as usize };
                match random.below(8) {
                    0 => pairs.push(Pair { sequence: Sequence::default(), truth: vec![] }),
                    _ if pairs.is_empty() => {}
                    1 => {
                        let sequence = pairs[pick].sequence.fork();
                        let truth = pairs[pick].truth.clone();
                        pairs.push(Pair { sequence, truth });
                        copies += 1;
                    }
                    2 => drop(pairs.swap_remove(pick)),
                    3 => {
                        let pair = &mut pairs[pick];
                        let length = random.below(pair.truth.len() as u64 + 1) as usize;
                        pair.sequence.truncate(length);
                        pair.truth.truncate(length);
                    }
                    4 => {
                        // A prompt that shares a beginning with what is held.
                        let pair = &mut pairs[pick];
                        let common = random.below(pair.truth.len() as u64 + 1) as usize;
                        let mut prompt = pair.truth[..common].to_vec();
                        prompt.extend((0..1 + random.below(9) as u32).map(|i| 1_000_000 + step * 10 + i));
                        let kept = pair.sequence.align(&prompt);
                        assert_eq!(kept, common);
                        let rows = prompt.len() - kept;
                        if compute(pair, &pool, &mut store, rows, false) {
                            pair.truth = prompt;
                        } else {
                            pair.sequence.discard_pending();
                            pair.truth.truncate(kept);
                            full += 1;
                        }
                    }
                    _ => {
                        let pair = &mut pairs[pick];
                        let tokens: Vec<u32> =
                            (0..random.below(150) as u32).map(|i| step * 1000 + i).collect();
                        pair.sequence.extend(&tokens);
                        let fails = random.below(4) == 0;
                        if compute(pair, &pool, &mut store, tokens.len(), fails) {
                            pair.truth.extend(tokens);
                        } else {
                            pair.sequence.discard_pending();
                            full += u32::from(!fails);
                        }
                    }
                }
                // Every sequence reads back its own tokens through its own pages.
                let mut holders = vec![0; total];
                for Pair { sequence, truth } in &pairs {
                    assert_eq!(sequence.tokens(), truth);
                    assert_eq!(sequence.computed(), truth.len());
                    for (position, token) in truth.iter().enumerate() {
                        let page = sequence.pages()[position / PAGE];
                        assert_eq!(store.get(&(page, position % PAGE)), Some(token));
                    }
                    sequence.pages().iter().for_each(|&page| holders[page as usize] += 1);
                }
                // Every page is held exactly as often as it is in a table, and the rest is free.
                let counted: Vec<u32> = (0..total as u32).map(|page| pool.references(page)).collect();
                assert_eq!(counted, holders);
                assert_eq!(pool.free(), holders.iter().filter(|&&h| h == 0).count());
            }
            drop(pairs);
            assert_eq!(pool.free(), total);
        }
        assert!(full > 100 && copies > 100, "{full} refusals, {copies} forks");
    }

    #[test]
    fn a_fork_copies_one_page_and_only_when_it_must() {
        let pool = PagePool::new(8);
        let mut a = Sequence::default();
        a.extend(&[7; PAGE + 10]);
        assert_eq!(a.reserve(from_ref(&pool), PAGE + 10), Ok(vec![]));
        a.advance(PAGE + 10);
        let mut b = a.fork();
        assert_eq!((pool.free(), pool.references(a.pages()[1])), (6, 2));
        b.push(1);
        let shared = a.pages()[1];
        assert_eq!(
            b.reserve(from_ref(&pool), 1),
            Ok(vec![PageCopy { group: 0, from: shared, to: b.pages()[1] }])
        );
        let copy = b.pages()[1];
        assert_ne!(copy, shared);
        // Until the row is done it can be given up, and all is as before.
        b.revert();
        assert_eq!((b.pages()[1], pool.free(), pool.references(shared)), (shared, 6, 2));
        assert_eq!(b.reserve(from_ref(&pool), 1), Ok(vec![PageCopy { group: 0, from: shared, to: copy }]));
        b.advance(1);
        // The first page stays shared, and the other holder is alone with its last page now.
        assert_eq!((a.pages()[0], pool.references(shared)), (b.pages()[0], 1));
        a.push(2);
        assert_eq!(a.reserve(from_ref(&pool), 1), Ok(vec![]));
    }

    #[test]
    fn cutting_at_a_page_border_shares_without_copying() {
        let pool = PagePool::new(4);
        let mut a = Sequence::default();
        a.extend(&[7; 2 * PAGE]);
        a.reserve(from_ref(&pool), 2 * PAGE).unwrap();
        a.advance(2 * PAGE);
        let mut b = a.fork();
        b.truncate(PAGE);
        b.push(1);
        assert_eq!(b.reserve(from_ref(&pool), 1), Ok(vec![]));
        assert_eq!(pool.free(), 1);
        // Nothing to write needs no page.
        assert_eq!(a.fork().reserve(from_ref(&pool), 0), Ok(vec![]));
    }

    #[test]
    fn an_exhausted_pool_changes_nothing() {
        let pool = PagePool::new(2);
        let mut a = Sequence::default();
        a.extend(&[1; 3 * PAGE]);
        assert_eq!(
            a.reserve(from_ref(&pool), 3 * PAGE),
            Err(Error::NoPages { needed: 3, free: 2, total: 2 })
        );
        assert_eq!((pool.free(), a.pages().len()), (2, 0));
        assert_eq!(a.reserve(from_ref(&pool), 2 * PAGE), Ok(vec![]));
    }

    #[test]
    fn aligning_keeps_one_token_to_compute() {
        let pool = PagePool::new(2);
        let mut a = Sequence::default();
        a.extend(&[1, 2, 3]);
        a.reserve(from_ref(&pool), 3).unwrap();
        a.advance(3);
        assert_eq!(a.align(&[1, 2, 3]), 2);
        assert_eq!((a.pending(), a.computed()), (&[3][..], 2));
        assert_eq!(a.align(&[]), 0);
        assert_eq!((a.tokens().len(), pool.free()), (0, 2));
    }
}
