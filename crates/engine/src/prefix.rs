//! What earlier requests left: sequences that a new prompt may begin with.
//!
//! They are kept in the order of their tokens, so that those with a common beginning lie together and the one that has
//! most in common with a prompt is one of its neighbours: a radix tree whose edges are the pages that sequences share.
//! A sequence that recurrent layers or windows let go on from few places only may be passed over for one further away.
//! When pages are needed, the sequence that was used least recently loses its last page, as long as it has any.

use std::collections::BTreeMap;
use std::ops::Bound;

use gleed_model::arithmetic::PAGE;

use crate::{Adapters, Sequence};

/// Computed sequences by their adapters, and then by their tokens.
#[derive(Debug, Default)]
pub(crate) struct PrefixCache {
    entries: BTreeMap<Adapters, Entries>,
    clock: u64,
}

/// Those of the same adapters.
type Entries = BTreeMap<Vec<u32>, Entry>;

#[derive(Debug)]
struct Entry {
    sequence: Sequence,
    /// When it was last of use.
    used: u64,
}

/// What a cache has for a prompt.
#[derive(Debug)]
pub(crate) struct Found {
    /// Computed tokens of the prompt's beginning: at most all but the last, perhaps none.
    pub sequence: Sequence,
    /// How many tokens some sequence has in common with the prompt, whether or not it can go on from there.
    pub common: usize,
}

impl Found {
    /// No more than which adapters it is for.
    pub fn nothing(adapters: &Adapters) -> Found {
        Found { sequence: Sequence::adapted(adapters.clone()), common: 0 }
    }
}

impl PrefixCache {
    /// How many sequences there are.
    pub fn len(&self) -> usize {
        self.entries.values().map(Entries::len).sum()
    }

    /// The longest beginning of a prompt, computed with these adapters, that can be gone on from.
    pub fn find(&mut self, adapters: &Adapters, prompt: &[u32]) -> Found {
        let Some(alike) = self.entries.get_mut(adapters) else { return Found::nothing(adapters) };
        let usable = &prompt[..prompt.len().saturating_sub(1)];
        let (mut common, mut best) = (0, (0, None));
        let mut before = alike.range::<[u32], _>(before(prompt)).rev();
        let mut after = alike.range::<[u32], _>(from(prompt));
        let mut look = |entries: &mut dyn Iterator<Item = (&Vec<u32>, &Entry)>| {
            for (tokens, entry) in entries {
                let shared = shared(tokens, usable);
                common = common.max(shared);
                // Those further away have no more in common.
                if shared <= best.0 {
                    break;
                }
                let reachable = entry.sequence.reachable(shared);
                if reachable > best.0 {
                    best = (reachable, Some(tokens.clone()));
                }
            }
        };
        look(&mut before);
        look(&mut after);
        let Some(entry) = best.1.and_then(|tokens| alike.get_mut(&tokens)) else {
            return Found { common, ..Found::nothing(adapters) };
        };
        self.clock += 1;
        entry.used = self.clock;
        let mut sequence = entry.sequence.fork();
        sequence.truncate(best.0);
        Found { sequence, common }
    }

    /// Keeps what is computed of a sequence.
    pub fn insert(&mut self, sequence: Sequence) {
        self.clock += 1;
        self.keep(sequence, self.clock);
    }

    /// Gives up some of the sequence that was used least recently. False when there is none.
    pub fn shrink(&mut self) -> bool {
        let oldest = |entries: &Entries| entries.values().map(|entry| entry.used).min();
        let Some((adapters, entries)) = self.entries.iter_mut().min_by_key(|(_, entries)| oldest(entries))
        else {
            return false;
        };
        let oldest = entries.iter().min_by_key(|(_, entry)| entry.used).map(|(tokens, _)| tokens.clone());
        let removed = oldest.and_then(|tokens| entries.remove(&tokens));
        if entries.is_empty() {
            let adapters = adapters.clone();
            self.entries.remove(&adapters);
        }
        let Some(Entry { mut sequence, used }) = removed else { return false };
        sequence.truncate((sequence.computed().saturating_sub(1)) / PAGE * PAGE);
        self.keep(sequence, used);
        true
    }

    fn keep(&mut self, mut sequence: Sequence, used: u64) {
        sequence.truncate(sequence.computed());
        let tokens = sequence.tokens().to_vec();
        if tokens.is_empty() {
            return;
        }
        let alike = self.entries.entry(sequence.adapters().clone()).or_default();
        if sequence.can_be_cut_anywhere() {
            // One that has it as its beginning serves as well, and it serves as well as its own beginnings.
            let mut after = alike.range_mut::<[u32], _>(from(&tokens));
            if let Some((_, entry)) = after.next().filter(|(other, _)| other.starts_with(&tokens)) {
                entry.used = entry.used.max(used);
                return;
            }
            while let Some((other, _)) = alike.range::<[u32], _>(before(&tokens)).next_back()
                && tokens.starts_with(other)
            {
                let other = other.clone();
                alike.remove(&other);
            }
        }
        alike.insert(tokens, Entry { sequence, used });
    }
}

/// All that come before some tokens.
fn before(tokens: &[u32]) -> (Bound<&[u32]>, Bound<&[u32]>) {
    (Bound::Unbounded, Bound::Excluded(tokens))
}

/// Some tokens and all that come after them.
fn from(tokens: &[u32]) -> (Bound<&[u32]>, Bound<&[u32]>) {
    (Bound::Included(tokens), Bound::Unbounded)
}

/// How many tokens two sequences begin alike with.
pub(crate) fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use gleed_model::groups::PageGroup;

    use super::*;
    use crate::sampler::Random;
    use crate::{PagePool, SlotPool};

    /// Computes all that is pending, in chunks.
    fn compute(sequence: &mut Sequence, pools: &[PagePool], slots: Option<&SlotPool>) -> bool {
        while !sequence.pending().is_empty() {
            let rows = sequence.pending().len().min(100);
            let states = slots.is_none_or(|slots| sequence.reserve_states(slots, rows).is_ok());
            if !states || sequence.reserve(pools, rows).is_err() {
                sequence.revert();
                return false;
            }
            sequence.advance(rows);
        }
        true
    }

    /// Prompts that begin alike in many ways.
    fn prompt(random: &mut Random) -> Vec<u32> {
        let length = 1 + random.below(300) as usize;
        let change = random.below(4) * 90;
        let (before, after) = (random.below(2) as u32, 10 + random.below(3) as u32);
        (0..length as u64).map(|at| if at < change { before } else { after }).collect()
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let mut random = Random::new(4);
        let (mut found, mut shrunk) = (0, 0);
        for round in 0..60 {
            let window = (round % 3 == 1).then_some(100);
            let groups = [(None, 60), (window, 60)];
            let pools = groups.map(|(window, pages)| PagePool::of(PageGroup { window, pages }));
            let slots = (round % 3 == 2).then(|| SlotPool::new(12));
            let mut cache = PrefixCache::default();
            for _ in 0..60 {
                let prompt = prompt(&mut random);
                let usable = &prompt[..prompt.len() - 1];
                let entries = || cache.entries.values().flatten();
                let truth = entries()
                    .map(|(_, entry)| entry)
                    .map(|entry| entry.sequence.reachable(shared(entry.sequence.tokens(), usable)))
                    .max()
                    .unwrap_or(0);
                let common = entries().map(|(tokens, _)| shared(tokens, usable)).max().unwrap_or(0);
                let Found { mut sequence, common: told } = cache.find(&Adapters::default(), &prompt);
                assert_eq!((sequence.computed(), sequence.tokens()), (truth, &prompt[..truth]));
                assert_eq!(told, common);
                assert!(window.is_some() || slots.is_some() || truth == common);
                found += usize::from(truth > 0);
                sequence.extend(&prompt[truth..]);
                while !compute(&mut sequence, &pools, slots.as_ref()) {
                    assert!(cache.shrink(), "one prompt has room");
                    shrunk += 1;
                }
                cache.insert(sequence);
            }
            while cache.shrink() {}
            assert!(pools.iter().all(|pool| pool.free() == pool.total()));
            assert!(slots.is_none_or(|slots| slots.free() == slots.total()));
        }
        assert!(found > 500 && shrunk > 500, "{found} {shrunk}");
    }

    #[test]
    fn the_least_recently_used_page_goes_first() {
        let pools = [PagePool::new(10)];
        let mut cache = PrefixCache::default();
        for first in 1..=3 {
            let mut sequence = Sequence::default();
            sequence.extend(&[first; 2 * PAGE + 10]);
            assert!(compute(&mut sequence, &pools, None));
            cache.insert(sequence);
        }
        assert_eq!((cache.len(), pools[0].free()), (3, 1));
        assert_eq!(cache.find(&Adapters::default(), &[1; 500]).sequence.computed(), 2 * PAGE + 10);
        assert!(cache.shrink());
        // The second one lost its open page.
        assert_eq!((cache.len(), pools[0].free()), (3, 2));
        assert_eq!(cache.find(&Adapters::default(), &[2; 500]).sequence.computed(), 2 * PAGE);
        (0..3).for_each(|_| assert!(cache.shrink()));
        assert_eq!((cache.len(), pools[0].free()), (2, 5));
        assert_eq!(cache.find(&Adapters::default(), &[3; 500]).sequence.computed(), 0);
        // A longer one takes the place of its beginning, and what is a beginning is not kept.
        let mut longer = cache.find(&Adapters::default(), &[1; 500]).sequence;
        let shorter = cache.find(&Adapters::default(), &[1; 70]).sequence;
        longer.extend(&[7; 9]);
        assert!(compute(&mut longer, &pools, None));
        cache.insert(longer);
        cache.insert(shorter);
        assert_eq!((cache.len(), pools[0].free()), (2, 5));
    }
}
