//! A run of tokens and the KV pages that hold what was computed of them.
//!
//! Forks share pages. A page is copied when a sequence is about to write into it while others hold it, so a
//! fork costs nothing until the two part, and then at most one page.

use gleed_model::arithmetic::PAGE;

use crate::pages::PageTable;
use crate::states::States;
use crate::{PagePool, Result, SlotPool};

/// Tokens, of which the first [`computed`](Sequence::computed) have their keys and values in the cache.
///
/// It holds pages of the engine that it was first computed with, and no other engine takes it while it has any.
/// Dropping it gives them back.
#[derive(Debug, Default)]
pub struct Sequence {
    tokens: Vec<u32>,
    /// Page `i` holds positions `i * PAGE ..`; at least enough for the computed tokens.
    pages: PageTable,
    /// What it holds of recurrent layers.
    states: States,
    computed: usize,
    /// How to give back what was reserved for a step that is not done.
    undo: Option<Undo>,
}

/// What a sequence held before pages were reserved.
#[derive(Debug)]
struct Undo {
    /// How many pages.
    pages: usize,
    /// The last of them, if a copy took its place.
    replaced: Option<PageTable>,
}

/// A page to copy before the next step, because its other holders must not see what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageCopy {
    pub from: u32,
    pub to: u32,
}

impl Sequence {
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

    /// The page table.
    pub fn pages(&self) -> &[u32] {
        self.pages.pages()
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

    /// Keeps only the first `length` tokens and the pages that they need. Where the model has recurrent layers, the last
    /// of them may be pending afterwards: a state cannot be cut, and the last one that was kept may be of fewer tokens.
    pub fn truncate(&mut self, length: usize) {
        self.undo = None;
        self.tokens.truncate(length);
        self.computed = self.computed.min(length);
        if !self.states.is_empty() {
            self.computed = self.states.truncate(self.computed);
        }
        self.pages.truncate(self.computed.div_ceil(PAGE));
    }

    /// Another sequence with the same computed tokens. Nothing is copied until one of them goes on.
    pub fn fork(&self) -> Sequence {
        let pages = self.pages.share(self.computed.div_ceil(PAGE));
        let (tokens, states) = (self.tokens[..self.computed].to_vec(), self.states.share());
        Sequence { tokens, pages, states, computed: self.computed, undo: None }
    }

    /// Whether it can be computed with the pages of this pool.
    pub(crate) fn is_of(&self, pool: &PagePool) -> bool {
        self.pages.is_of(pool)
    }

    /// The page that already holds some positions and will hold the next one too, by its place in the table. Only
    /// this one can be shared and written: a fork takes no pages after it.
    fn open_page(&self) -> Option<usize> {
        (!self.computed.is_multiple_of(PAGE)).then_some(self.computed / PAGE)
    }

    /// Makes sure that the next `rows` positions have pages of the pool that nobody else holds, until the rows are
    /// done ([`advance`](Self::advance)) or given up ([`revert`](Self::revert)). All or nothing; the copy that it
    /// may ask for must happen before the step.
    pub(crate) fn reserve(&mut self, pool: &PagePool, rows: usize) -> Result<Option<PageCopy>> {
        let before = self.pages().len();
        let missing = (self.computed + rows).div_ceil(PAGE).saturating_sub(before);
        let shared = self.open_page().filter(|page| rows > 0 && self.pages.is_shared(*page));
        self.pages.grow(pool, missing + usize::from(shared.is_some()))?;
        let undo = self.undo.get_or_insert(Undo { pages: before, replaced: None });
        let Some(page) = shared else { return Ok(None) };
        // The last of the new pages takes the place of the shared one.
        let replaced = undo.replaced.insert(self.pages.replace_by_last(page));
        Ok(Some(PageCopy { from: replaced.pages()[0], to: self.pages.pages()[page] }))
    }

    /// Makes sure that the states of recurrent layers that the next `rows` positions leave have slots of the pool.
    pub(crate) fn reserve_states(&mut self, pool: &SlotPool, rows: usize) -> Result<()> {
        self.states.reserve(pool, self.computed, rows)
    }

    /// Gives up the states of recurrent layers that it could go back to.
    pub(crate) fn keep_last_state(&mut self) {
        self.states.keep_last();
    }

    /// What it holds of recurrent layers.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Gives back everything that was reserved since rows were last done.
    pub(crate) fn revert(&mut self) {
        self.states.revert();
        let Some(undo) = self.undo.take() else { return };
        if let (Some(page), Some(mut replaced)) = (self.open_page(), undo.replaced) {
            self.pages.exchange(page, &mut replaced);
        }
        self.pages.truncate(undo.pages);
    }

    /// How many tokens it can hold with its own pages and the free ones.
    pub(crate) fn capacity(&self, pool: &PagePool) -> usize {
        // A page that others hold too must be copied first.
        let copies = usize::from(self.open_page().is_some_and(|page| self.pages.is_shared(page)));
        (self.pages().len() + pool.free()).saturating_sub(copies) * PAGE
    }

    /// Marks the next `rows` pending tokens as computed.
    pub(crate) fn advance(&mut self, rows: usize) {
        self.undo = None;
        self.computed += rows;
        self.states.advance(rows);
        debug_assert!(self.computed <= self.tokens.len() && self.computed <= self.pages().len() * PAGE);
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

    use super::*;
    use crate::Error;
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
        let copy = match pair.sequence.reserve(pool, rows) {
            Ok(copy) => copy,
            Err(error) => {
                let Error::NoPages { needed, free, .. } = error else { panic!("{error}") };
                assert!(needed > free);
                return false;
            }
        };
        if let Some(PageCopy { from, to }) = copy {
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
        assert_eq!(a.reserve(&pool, PAGE + 10), Ok(None));
        a.advance(PAGE + 10);
        let mut b = a.fork();
        assert_eq!((pool.free(), pool.references(a.pages()[1])), (6, 2));
        b.push(1);
        let shared = a.pages()[1];
        assert_eq!(b.reserve(&pool, 1), Ok(Some(PageCopy { from: shared, to: b.pages()[1] })));
        let copy = b.pages()[1];
        assert_ne!(copy, shared);
        // Until the row is done it can be given up, and all is as before.
        b.revert();
        assert_eq!((b.pages()[1], pool.free(), pool.references(shared)), (shared, 6, 2));
        assert_eq!(b.reserve(&pool, 1), Ok(Some(PageCopy { from: shared, to: copy })));
        b.advance(1);
        // The first page stays shared, and the other holder is alone with its last page now.
        assert_eq!((a.pages()[0], pool.references(shared)), (b.pages()[0], 1));
        a.push(2);
        assert_eq!(a.reserve(&pool, 1), Ok(None));
    }

    #[test]
    fn cutting_at_a_page_border_shares_without_copying() {
        let pool = PagePool::new(4);
        let mut a = Sequence::default();
        a.extend(&[7; 2 * PAGE]);
        a.reserve(&pool, 2 * PAGE).unwrap();
        a.advance(2 * PAGE);
        let mut b = a.fork();
        b.truncate(PAGE);
        b.push(1);
        assert_eq!(b.reserve(&pool, 1), Ok(None));
        assert_eq!(pool.free(), 1);
        // Nothing to write needs no page.
        assert_eq!(a.fork().reserve(&pool, 0), Ok(None));
    }

    #[test]
    fn an_exhausted_pool_changes_nothing() {
        let pool = PagePool::new(2);
        let mut a = Sequence::default();
        a.extend(&[1; 3 * PAGE]);
        assert_eq!(a.reserve(&pool, 3 * PAGE), Err(Error::NoPages { needed: 3, free: 2, total: 2 }));
        assert_eq!((pool.free(), a.pages().len()), (2, 0));
        assert_eq!(a.reserve(&pool, 2 * PAGE), Ok(None));
    }

    #[test]
    fn aligning_keeps_one_token_to_compute() {
        let pool = PagePool::new(2);
        let mut a = Sequence::default();
        a.extend(&[1, 2, 3]);
        a.reserve(&pool, 3).unwrap();
        a.advance(3);
        assert_eq!(a.align(&[1, 2, 3]), 2);
        assert_eq!((a.pending(), a.computed()), (&[3][..], 2));
        assert_eq!(a.align(&[]), 0);
        assert_eq!((a.tokens().len(), pool.free()), (0, 2));
    }
}
