//! A queue of places in a text by priority, leftmost first among equals.
//!
//! Long texts of few distinct pairs (a megabyte of one letter) would sink a binary heap in cache misses.
//! Here every priority has its own places; they mostly arrive in order, and then cost nothing to sort.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Places by priority.
#[derive(Default)]
pub(crate) struct Queue {
    places: HashMap<u32, Places, BuildHasherDefault<PriorityHasher>>,
    /// The priorities that have places, each once.
    priorities: BinaryHeap<Reverse<u32>>,
}

impl Queue {
    /// Adds a place.
    pub(crate) fn push(&mut self, priority: u32, place: u32) {
        let places = self.places.entry(priority).or_default();
        if places.is_empty() {
            self.priorities.push(Reverse(priority));
        }
        places.push(place);
    }

    /// Takes the leftmost place of the lowest priority.
    pub(crate) fn pop(&mut self) -> Option<(u32, u32)> {
        let &Reverse(priority) = self.priorities.peek()?;
        let places = self.places.get_mut(&priority)?;
        let place = places.pop()?;
        if places.is_empty() {
            self.priorities.pop();
        }
        Some((priority, place))
    }
}

/// The places of one priority.
#[derive(Default)]
struct Places {
    /// Places that arrived in order, of which the first `taken` are gone.
    in_order: Vec<u32>,
    taken: usize,
    /// Places that arrived behind a later one.
    late: BinaryHeap<Reverse<u32>>,
}

impl Places {
    fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.late.is_empty()
    }

    fn push(&mut self, place: u32) {
        match self.in_order.last() {
            Some(&last) if last > place => self.late.push(Reverse(place)),
            _ => self.in_order.push(place),
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let Some(&first) = self.in_order.get(self.taken) else { return self.late.pop().map(|late| late.0) };
        if self.late.peek().is_some_and(|late| late.0 < first) {
            return self.late.pop().map(|late| late.0);
        }
        self.taken += 1;
        if self.taken == self.in_order.len() {
            self.in_order.clear();
            self.taken = 0;
        }
        Some(first)
    }
}

/// Priorities are ranks or scores, not chosen by an adversary at run time: one multiplication spreads them.
#[derive(Default)]
struct PriorityHasher(u64);

impl Hasher for PriorityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Any sequence of pushes and pops, against a sorted set.
        #[test]
        fn pops_in_order(steps in prop::collection::vec(prop::option::of((0u32..6, 0u32..50)), 0..300)) {
            let (mut queue, mut sorted) = (Queue::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Some((priority, place)) if sorted.insert((priority, place)) => queue.push(priority, place),
                    Some(_) => {}
                    None => prop_assert_eq!(queue.pop(), sorted.pop_first()),
                }
            }
            while let Some(first) = sorted.pop_first() {
                prop_assert_eq!(queue.pop(), Some(first));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
