//! The pages that a sequence holds in one page group.
//!
//! Where the group has a window, pages that no later row can see are given back when a step has succeeded. A sequence may
//! be cut, though, and what comes after its new end sees further back. Some pages before the window are therefore kept
//! too: of the end of what was last computed at once (a prompt), and a page's length before that and before the end of
//! all. A sequence that is cut where pages are missing goes back to where none is, and computes from there.

use std::ops::Range;

use gleed_model::arithmetic::PAGE;
use gleed_model::groups::first_page;

use crate::pages::PageTable;
use crate::{PagePool, Result};

/// Pages of one group: those of the computed tokens that are not given back, and those of a step under way.
#[derive(Debug, Default)]
pub(crate) struct HeldPages {
    /// Page `i` holds positions `i * PAGE ..`; at least enough for the computed tokens.
    table: PageTable,
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
    pub group: usize,
    pub from: u32,
    pub to: u32,
}

/// The page that already holds some positions and will hold the next one too, by its place in the table. Only this one
/// can be shared and written: a fork takes no pages after it.
fn open_page(computed: usize) -> Option<usize> {
    (!computed.is_multiple_of(PAGE)).then_some(computed / PAGE)
}

impl HeldPages {
    pub(crate) fn table(&self) -> &[u32] {
        self.table.pages()
    }

    pub(crate) fn is_of(&self, pool: &PagePool) -> bool {
        self.table.is_of(pool)
    }

    pub(crate) fn has_window(&self) -> bool {
        self.table.window().is_some()
    }

    /// How many pages [`reserve`](Self::reserve) would take.
    pub(crate) fn missing(&self, computed: usize, rows: usize) -> usize {
        let more = (computed + rows).div_ceil(PAGE).saturating_sub(self.table().len());
        more + usize::from(self.shared_page(computed, rows).is_some())
    }

    /// The page that has to be copied before `rows` rows are written.
    fn shared_page(&self, computed: usize, rows: usize) -> Option<usize> {
        open_page(computed).filter(|page| rows > 0 && self.table.is_shared(*page))
    }

    /// Makes sure that the next `rows` positions have pages of the pool that no other sequence holds. Returns the
    /// pages between which a copy must happen before the step, if any. All or nothing.
    pub(crate) fn reserve(
        &mut self,
        pool: &PagePool,
        computed: usize,
        rows: usize,
    ) -> Result<Option<(u32, u32)>> {
        let (before, shared) = (self.table().len(), self.shared_page(computed, rows));
        self.table.grow(pool, self.missing(computed, rows))?;
        let undo = self.undo.get_or_insert(Undo { pages: before, replaced: None });
        let Some(page) = shared else { return Ok(None) };
        // The last of the new pages takes the place of the shared one.
        let replaced = undo.replaced.insert(self.table.replace_by_last(page));
        Ok(Some((replaced.pages()[0], self.table.pages()[page])))
    }

    /// Gives back everything that was reserved since rows were last done.
    pub(crate) fn revert(&mut self, computed: usize) {
        let Some(undo) = self.undo.take() else { return };
        if let (Some(page), Some(mut replaced)) = (open_page(computed), undo.replaced) {
            self.table.exchange(page, &mut replaced);
        }
        self.table.truncate(undo.pages);
    }

    /// What was reserved is used now. Gives back what no row after either of two lengths sees: that of all computed
    /// tokens and that of the prompt, or up to a page's length less.
    pub(crate) fn advance(&mut self, computed: usize, prompt_end: usize) {
        self.undo = None;
        if let Some(window) = self.table.window() {
            let first = |length: usize| first_page(window.saturating_add(PAGE), length);
            self.keep(first(prompt_end)..prompt_end.div_ceil(PAGE), first(computed));
        }
    }

    /// Gives back all that the next row does not see.
    pub(crate) fn keep_last(&mut self, computed: usize) {
        if let Some(window) = self.table.window() {
            self.keep(0..0, first_page(window, computed));
        }
    }

    /// Keeps the pages of a range and those from some on.
    fn keep(&mut self, range: Range<usize>, from: usize) {
        self.table.give_back(0..range.start.min(from));
        self.table.give_back(range.end..from);
    }

    /// The most tokens, up to a number, after which a row finds all pages that it sees.
    pub(crate) fn reachable(&self, most: usize) -> usize {
        let Some(window) = self.table.window() else { return most };
        let mut length = most;
        while let Some(missing) = self.table.last_missing(first_page(window, length)..length.div_ceil(PAGE)) {
            length = missing * PAGE;
        }
        length
    }

    /// Gives back all that is not for the first tokens, and what was reserved.
    pub(crate) fn truncate(&mut self, computed: usize) {
        self.undo = None;
        self.table.truncate(computed.div_ceil(PAGE));
    }

    /// Another holder of the pages of the computed tokens.
    pub(crate) fn share(&self, computed: usize) -> HeldPages {
        HeldPages { table: self.table.share(computed.div_ceil(PAGE)), undo: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gleed_model::groups::{NO_PAGE, PageGroup, least};

    use super::*;
    use crate::sampler::Random;
    use crate::{Error, Sequence};

    /// A sequence beside the tokens that it should hold.
    struct Pair {
        sequence: Sequence,
        truth: Vec<u32>,
    }

    /// What the pages of all groups hold: (group, page, slot) → token.
    type Store = HashMap<(usize, u32, usize), u32>;

    /// Writes pending tokens as an executor would. One that fails writes something else.
    fn compute(pair: &mut Pair, pools: &[PagePool], store: &mut Store, rows: usize, fails: bool) {
        let Pair { sequence, truth } = pair;
        let copies = sequence.reserve(pools, rows).or_else(|_| {
            sequence.keep_last_pages();
            sequence.reserve(pools, rows)
        });
        let copies = match copies {
            Ok(copies) => copies,
            Err(error) => {
                assert!(matches!(error, Error::NoPages { needed, free, .. } if needed > free));
                return;
            }
        };
        for PageCopy { group, from, to } in copies {
            for slot in 0..PAGE {
                match store.get(&(group, from, slot)).copied() {
                    Some(token) => store.insert((group, to, slot), token),
                    None => store.remove(&(group, to, slot)),
                };
            }
        }
        let start = sequence.computed();
        for (group, pool) in pools.iter().enumerate() {
            let pages = sequence.group_pages(group);
            for position in start..start + rows {
                let page = pages[position / PAGE];
                assert_eq!(pool.references(page), 1, "writes into a shared page");
                store.insert((group, page, position % PAGE), truth[position] ^ u32::from(fails));
            }
            // Every row finds what it sees.
            for position in start..start + if fails { 0 } else { rows } {
                let first = pool.window().map_or(0, |window| (position + 1).saturating_sub(window));
                for seen in [first, (first + position) / 2, position] {
                    let held = store.get(&(group, pages[seen / PAGE], seen % PAGE));
                    assert_eq!(held, Some(&truth[seen]), "group {group}: {position} sees {seen}");
                }
            }
        }
        match fails {
            false => sequence.advance(rows),
            true => sequence.revert(),
        }
    }

    /// Every page is held exactly as often as it is in a table, and the rest is free.
    fn check_counts(pools: &[PagePool], pairs: &[Pair]) {
        for (group, pool) in pools.iter().enumerate() {
            let mut holders = vec![0; pool.total()];
            for page in pairs.iter().flat_map(|pair| pair.sequence.group_pages(group)) {
                if *page != NO_PAGE {
                    holders[*page as usize] += 1;
                }
            }
            let counted: Vec<u32> = (0..pool.total() as u32).map(|page| pool.references(page)).collect();
            assert_eq!(counted, holders);
            assert_eq!(pool.free(), holders.iter().filter(|&&count| count == 0).count());
        }
    }

    #[test]
    fn random_operations_find_all_that_a_window_sees() {
        let mut random = Random::new(8);
        let (mut again, mut kept, mut waiting) = (0, 0, 0);
        for round in 0..40 {
            let window = 1 + random.below(200) as usize;
            let few = least(window, 150) + random.below(12) as usize;
            let groups = [(None, 400), (Some(window), few), (Some(window + 70), 400)];
            let pools = groups.map(|(window, pages)| PagePool::of(PageGroup { window, pages }));
            let mut store = HashMap::new();
            let mut pairs: Vec<Pair> = vec![];
            for step in 0..200u32 {
                let pick = if pairs.is_empty() { 0 } else { random.below(pairs.len() as u64) as usize };
                match random.below(10) {
                    0 if pairs.len() < 2 + round % 4 => {
                        pairs.push(Pair { sequence: Sequence::default(), truth: vec![] });
                    }
                    _ if pairs.is_empty() => {}
                    1 => {
                        let sequence = pairs[pick].sequence.fork();
                        let truth = sequence.tokens().to_vec();
                        pairs.push(Pair { sequence, truth });
                    }
                    2 if pairs.len() > 1 => drop(pairs.swap_remove(pick)),
                    3 => {
                        // As often a little back as anywhere.
                        let Pair { sequence, truth } = &mut pairs[pick];
                        let least = random.below(2) as usize * truth.len().saturating_sub(PAGE);
                        let length = least + random.below((truth.len() - least) as u64 + 1) as usize;
                        let computed = sequence.computed();
                        sequence.truncate(length);
                        truth.truncate(length);
                        again += usize::from(sequence.computed() < length.min(computed));
                        kept += usize::from(sequence.computed() == length && length > 0);
                    }
                    _ => {
                        let count = if random.below(2) == 0 { 1 } else { random.below(150) as u32 };
                        let pair = &mut pairs[pick];
                        let tokens: Vec<u32> = (0..count).map(|i| step * 1000 + 2 * i).collect();
                        pair.sequence.extend(&tokens);
                        pair.truth.extend(tokens);
                        let rows = pair.sequence.pending().len().min(150);
                        let fails = random.below(4) == 0;
                        compute(pair, &pools, &mut store, rows, fails);
                    }
                }
                for Pair { sequence, truth } in &pairs {
                    assert_eq!(sequence.tokens(), truth);
                    waiting += usize::from(!sequence.pending().is_empty());
                }
                check_counts(&pools, &pairs);
            }
            drop(pairs);
            assert!(pools.iter().all(|pool| pool.free() == pool.total()));
        }
        assert!(again > 50 && kept > 100 && waiting > 100, "{again} {kept} {waiting}");
    }

    /// Pages that a sequence holds in the group with the window.
    fn held(sequence: &Sequence) -> Vec<usize> {
        let pages = sequence.group_pages(1).iter().enumerate();
        pages.filter(|(_, page)| **page != NO_PAGE).map(|(index, _)| index).collect()
    }

    fn go_on(sequence: &mut Sequence, pools: &[PagePool], rows: usize) {
        sequence.extend(&vec![7; rows]);
        sequence.reserve(pools, rows).unwrap();
        sequence.advance(rows);
    }

    #[test]
    fn the_window_and_the_prompts_end_are_kept() {
        let window = 100;
        let groups = [(None, 100), (Some(window), 100)];
        let pools = groups.map(|(window, pages)| PagePool::of(PageGroup { window, pages }));
        let mut sequence = Sequence::default();
        (0..5).for_each(|_| go_on(&mut sequence, &pools, 128));
        // The row at 640 sees from 541 on, one at 576 from 477 on.
        assert_eq!(held(&sequence), [7, 8, 9]);
        (0..1000).for_each(|_| go_on(&mut sequence, &pools, 1));
        // The row at 1640 sees from 1541 on, one at 1576 from 1477 on.
        assert_eq!(held(&sequence), [7, 8, 9, 23, 24, 25]);
        assert_eq!((pools[0].free(), pools[1].free()), (100 - 26, 100 - 6));
        // A little back, into the answer where nothing is kept, a little back from the prompt's end, and further.
        for (length, computed) in [(1580, 1580), (1400, 640), (580, 580), (500, 0)] {
            let mut fork = sequence.fork();
            fork.truncate(length);
            assert_eq!((fork.computed(), fork.tokens().len()), (computed, length));
            fork.extend(&[3; 5]);
            assert_eq!(fork.pending().len(), length + 5 - computed);
        }
        sequence.keep_last_pages();
        assert_eq!(held(&sequence), [24, 25]);
        sequence.truncate(1640);
        assert_eq!(sequence.computed(), 1640);
        sequence.truncate(1634);
        assert_eq!(sequence.computed(), 0);
        assert_eq!(pools[1].free(), 100);
    }

    #[test]
    fn the_least_pages_are_enough_for_any_length() {
        for (window, rows) in [(1, 1), (1, 64), (32, 1), (64, 64), (65, 2), (100, 150), (1000, 3)] {
            let group = PageGroup { window: Some(window), pages: least(window, rows) };
            let pools = [PagePool::new(1000), PagePool::of(group)];
            let mut sequence = Sequence::default();
            for step in 0..40 * PAGE / rows {
                // Not all steps begin at the same place of a page.
                let rows = if step % 7 == 3 { rows.div_ceil(2) } else { rows };
                sequence.extend(&vec![1; rows]);
                if sequence.reserve(&pools, rows).is_err() {
                    sequence.keep_last_pages();
                    sequence.reserve(&pools, rows).unwrap();
                }
                sequence.advance(rows);
            }
        }
    }
}
