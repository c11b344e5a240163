//! The states of recurrent layers that a sequence holds: that of all its computed tokens, from which it goes on, and a
//! few earlier ones to which it can go back.
//!
//! Keys and values can be cut after any token; a state cannot. A sequence that is cut where no state was kept goes back
//! to the last one before, and the tokens in between are computed again. States are large, so that few are kept: those
//! at the end of what was last computed at once (a prompt) and at the end of all, and the last one at a page border
//! before each of the two. When slots run out, earlier states are given up first.

use gleed_model::arithmetic::PAGE;

use crate::slots::{Slot, SlotPool};
use crate::{Error, Result};

/// The state after some tokens.
#[derive(Debug, Clone)]
struct Kept {
    tokens: usize,
    slot: Slot,
}

/// What a sequence holds of recurrent layers; nothing where a program has none.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// Ascending; the last one is that of all computed tokens.
    kept: Vec<Kept>,
    /// Those that the step under way writes, ascending; the last one is at its end.
    new: Vec<Kept>,
    /// Where the last step of several rows ended.
    prompt_end: usize,
}

impl States {
    /// Slots that a sequence uses when none are scarce, with those of a step under way.
    pub(crate) const MOST: usize = 6;

    /// The slot with the state of all computed tokens; none before the first.
    pub(crate) fn current(&self) -> Option<u32> {
        self.kept.last().map(|kept| kept.slot.number())
    }

    /// What the step under way is to write: positions and slots.
    pub(crate) fn saves(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.new.iter().map(|new| (new.tokens as u32 - 1, new.slot.number()))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Keeps those of at most `tokens` tokens.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        self.revert();
        self.kept.retain(|kept| kept.tokens <= tokens);
        self.prompt_end = self.prompt_end.min(tokens);
    }

    /// Of how many tokens the last one is that is of at most `tokens`; 0 if there is none.
    pub(crate) fn last_within(&self, tokens: usize) -> usize {
        self.kept.iter().rev().map(|kept| kept.tokens).find(|kept| *kept <= tokens).unwrap_or(0)
    }

    /// Keeps only the one that the next step reads.
    pub(crate) fn keep_last(&mut self) {
        self.kept.drain(..self.kept.len().saturating_sub(1));
    }

    /// Another holder of the same states.
    pub(crate) fn share(&self) -> States {
        States { kept: self.kept.clone(), new: vec![], prompt_end: self.prompt_end }
    }

    /// Takes slots for a step of `rows` rows: one for its end, and one for the last page border before if one is to be
    /// had.
    pub(crate) fn reserve(&mut self, pool: &SlotPool, computed: usize, rows: usize) -> Result<()> {
        self.revert();
        if rows == 0 {
            return Ok(());
        }
        let end = computed + rows;
        let slot = loop {
            if let Some(slot) = pool.take() {
                break slot;
            }
            // The last one is read.
            if self.kept.len() < 2 {
                return Err(Error::NoSlots { total: pool.total() });
            }
            self.kept.remove(0);
        };
        let border = (end - 1) / PAGE * PAGE;
        if border > computed
            && let Some(slot) = pool.take()
        {
            self.new.push(Kept { tokens: border, slot });
        }
        self.new.push(Kept { tokens: end, slot });
        Ok(())
    }

    /// Gives back what was taken for a step.
    pub(crate) fn revert(&mut self) {
        self.new.clear();
    }

    /// Goes on to what the step has written, of `rows` rows, the last `guesses` of which are guesses. While there are
    /// any, the state that the step began from is kept: it is the one to go back to.
    pub(crate) fn advance(&mut self, rows: usize, guesses: usize) {
        let Some(end) = self.new.last().map(|new| new.tokens) else { return };
        self.kept.append(&mut self.new);
        if rows > 1 && guesses == 0 {
            self.prompt_end = end;
        }
        let before = |tokens: usize| {
            self.kept
                .iter()
                .map(|kept| kept.tokens)
                .filter(|kept| *kept < tokens && kept.is_multiple_of(PAGE))
                .max()
        };
        let start = (guesses > 0).then_some(end - rows);
        let wanted = [Some(end), before(end), Some(self.prompt_end), before(self.prompt_end), start];
        self.kept.retain(|kept| wanted.contains(&Some(kept.tokens)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::slice::from_ref;

    use super::*;
    use crate::sampler::Random;
    use crate::{PagePool, Sequence};

    /// A sequence beside the tokens that it should hold.
    struct Pair {
        sequence: Sequence,
        truth: Vec<u32>,
    }

    /// Writes states as an executor would, slot → tokens. One that fails writes something else.
    fn compute(
        pair: &mut Pair,
        pools: (&PagePool, &SlotPool),
        store: &mut HashMap<u32, Vec<u32>>,
        fails: bool,
    ) {
        let sequence = &mut pair.sequence;
        let rows = sequence.pending().len();
        if rows == 0 {
            return;
        }
        sequence.reserve(from_ref(pools.0), rows).unwrap();
        if let Err(error) = sequence.reserve_states(pools.1, rows) {
            assert!(matches!(error, Error::NoSlots { .. }) && pools.1.free() == 0);
            sequence.revert();
            return;
        }
        let states = sequence.states();
        // The state that is read is that of the computed tokens.
        let read = states.current().map_or(vec![], |slot| store[&slot].clone());
        assert_eq!(read, pair.truth[..sequence.computed()]);
        for (position, slot) in states.saves() {
            assert_ne!(Some(slot), states.current(), "a slot is read and written");
            let mut tokens = pair.truth[..=position as usize].to_vec();
            if fails {
                tokens.push(u32::MAX);
            }
            store.insert(slot, tokens);
        }
        match fails {
            false => sequence.advance(rows),
            true => sequence.revert(),
        }
    }

    #[test]
    fn random_operations_agree_with_plain_lists() {
        let mut random = Random::new(5);
        let (mut again, mut kept, mut refused) = (0, 0, 0);
        for _ in 0..60 {
            let total = 2 + random.below(20) as usize;
            let (pages, slots) = (PagePool::new(10_000), SlotPool::new(total));
            let mut store = HashMap::new();
            let mut pairs: Vec<Pair> = vec![];
            for step in 0..300u32 {
                let pick = if pairs.is_empty() { 0 } else { random.below(pairs.len() as u64) as usize };
                match random.below(8) {
                    0 => pairs.push(Pair { sequence: Sequence::default(), truth: vec![] }),
                    _ if pairs.is_empty() => {}
                    1 => {
                        let sequence = pairs[pick].sequence.fork();
                        let truth = pairs[pick].truth[..sequence.computed()].to_vec();
                        pairs.push(Pair { sequence, truth });
                    }
                    2 => drop(pairs.swap_remove(pick)),
                    3 => {
                        let pair = &mut pairs[pick];
                        let length = random.below(pair.truth.len() as u64 + 1) as usize;
                        pair.sequence.truncate(length);
                        pair.truth.truncate(length);
                        again += usize::from(pair.sequence.computed() < length);
                        kept += usize::from(pair.sequence.computed() > 0);
                    }
                    4 => {
                        // A prompt that shares a beginning with what is held.
                        let pair = &mut pairs[pick];
                        let common = random.below(pair.truth.len() as u64 + 1) as usize;
                        let mut prompt = pair.truth[..common].to_vec();
                        prompt.extend((0..1 + random.below(9) as u32).map(|i| 1_000_000 + step * 10 + i));
                        let found = pair.sequence.align(&prompt);
                        assert!(found <= common && found == pair.sequence.computed());
                        pair.truth = prompt;
                        compute(pair, (&pages, &slots), &mut store, false);
                    }
                    _ => {
                        let pair = &mut pairs[pick];
                        let count = if random.below(2) == 0 { 1 } else { random.below(150) as u32 };
                        let tokens: Vec<u32> = (0..count).map(|i| step * 1000 + i).collect();
                        pair.sequence.extend(&tokens);
                        pair.truth.extend(tokens);
                        let fails = random.below(4) == 0;
                        compute(pair, (&pages, &slots), &mut store, fails);
                    }
                }
                let mut held: Vec<u32> = vec![];
                for Pair { sequence, truth } in &pairs {
                    assert_eq!(sequence.tokens(), truth);
                    let states = sequence.states();
                    assert!(states.kept.is_sorted_by(|a, b| a.tokens < b.tokens) && states.new.is_empty());
                    assert!(states.kept.len() <= States::MOST - 2);
                    // The last state is that of the computed tokens, and each holds the tokens that it says.
                    assert_eq!(states.kept.last().map_or(0, |last| last.tokens), sequence.computed());
                    for kept in &states.kept {
                        assert_eq!(store[&kept.slot.number()], truth[..kept.tokens]);
                        held.push(kept.slot.number());
                    }
                    refused += usize::from(!sequence.pending().is_empty());
                }
                held.sort_unstable();
                held.dedup();
                assert_eq!(slots.free(), total - held.len());
            }
            drop(pairs);
            assert_eq!(slots.free(), total);
        }
        assert!(again > 100 && kept > 100 && refused > 100, "{again} {kept} {refused}");
    }

    /// A sequence of one that computed these steps.
    fn after(slots: &SlotPool, steps: &[usize]) -> Sequence {
        let pages = PagePool::new(100);
        let mut sequence = Sequence::default();
        for &rows in steps {
            sequence.extend(&vec![7; rows]);
            sequence.reserve(from_ref(&pages), rows).unwrap();
            sequence.reserve_states(slots, rows).unwrap();
            sequence.advance(rows);
        }
        sequence
    }

    fn kept(sequence: &Sequence) -> Vec<usize> {
        sequence.states().kept.iter().map(|kept| kept.tokens).collect()
    }

    #[test]
    fn the_prompts_end_and_page_borders_are_kept() {
        let slots = SlotPool::new(States::MOST);
        let prompt = 3 * PAGE + 5;
        assert_eq!(kept(&after(&slots, &[prompt])), [3 * PAGE, prompt]);
        let mut answered = after(&slots, &[[prompt].as_slice(), &[1; 2 * PAGE]].concat());
        assert_eq!(kept(&answered), [3 * PAGE, prompt, 5 * PAGE, prompt + 2 * PAGE]);
        // Back into the answer, to the end of the prompt, and into the prompt.
        for (length, computed) in
            [(5 * PAGE + 3, 5 * PAGE), (5 * PAGE - 1, prompt), (prompt - 1, 3 * PAGE), (9, 0)]
        {
            answered.truncate(length);
            assert_eq!((answered.computed(), answered.tokens().len()), (computed, length));
        }
        drop(answered);
        // Fewer slots, fewer ways back.
        let slots = SlotPool::new(2);
        let answered = after(&slots, &[[prompt].as_slice(), &[1; 2 * PAGE]].concat());
        assert_eq!(kept(&answered), [prompt + 2 * PAGE]);
        let mut other = Sequence::default();
        other.push(1);
        other.reserve_states(&slots, 1).unwrap();
        let mut third = Sequence::default();
        third.push(1);
        assert_eq!(third.reserve_states(&slots, 1), Err(Error::NoSlots { total: 2 }));
    }
}
