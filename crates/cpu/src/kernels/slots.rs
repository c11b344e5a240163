//! Rows sorted by the expert that they chose, and where the results of each go.
//!
//! A row has a *slot* for each expert that it uses. Threads take an expert's slots and some of its outputs.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use gleed_model::program::View;

use super::apart::Apart;
use super::shared::{Activations, Pointer, take_share};

/// One use of an expert by a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The row.
    pub row: usize,
    /// The expert's rank there.
    pub rank: usize,
}

/// The slots of all rows, expert by expert, rows ascending. Every slot is there exactly once.
#[derive(Debug)]
pub struct Slots {
    order: Vec<Slot>,
    /// Experts that have slots, and where these are.
    chosen: Vec<(usize, Range<usize>)>,
    /// For each expert, while sorting, where its next slot goes.
    next: Vec<usize>,
    rows: usize,
    used: usize,
}

impl Slots {
    /// None yet, with memory for these.
    pub fn with_capacity(slots: usize, experts: usize) -> Slots {
        Slots {
            order: Vec::with_capacity(slots),
            chosen: Vec::with_capacity(experts),
            next: Vec::with_capacity(experts),
            rows: 0,
            used: 0,
        }
    }

    /// Sorts the slots of some rows, each of which uses `used` of the experts. A number that is no expert's counts
    /// as the last one's.
    pub fn sort(&mut self, rows: usize, used: usize, experts: usize, expert: impl Fn(Slot) -> usize) {
        let expert = |slot| expert(slot).min(experts - 1);
        let slots = || (0..rows).flat_map(|row| (0..used).map(move |rank| Slot { row, rank }));
        (self.rows, self.used) = (rows, used);
        self.next.clear();
        self.next.resize(experts, 0);
        slots().for_each(|slot| self.next[expert(slot)] += 1);
        self.chosen.clear();
        let mut start = 0;
        for (expert, next) in self.next.iter_mut().enumerate() {
            let end = start + *next;
            if end > start {
                self.chosen.push((expert, start..end));
            }
            *next = start;
            start = end;
        }
        self.order.clear();
        self.order.resize(rows * used, Slot { row: 0, rank: 0 });
        for slot in slots() {
            let next = &mut self.next[expert(slot)];
            self.order[*next] = slot;
            *next += 1;
        }
    }

    /// All of them, in order.
    pub fn all(&self) -> &[Slot] {
        &self.order
    }

    /// Experts that have slots, and where these are among all.
    pub fn chosen(&self) -> &[(usize, Range<usize>)] {
        &self.chosen
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.order.capacity() * size_of::<Slot>()
            + self.chosen.capacity() * size_of::<(usize, Range<usize>)>()
            + self.next.capacity() * size_of::<usize>()
    }
}

/// Some outputs of every slot of a view.
#[derive(Debug, Clone, Copy)]
pub struct SlotColumns {
    /// All outputs of all slots of a row, one after the other.
    pub view: View,
    /// Outputs of a slot.
    pub width: usize,
    /// The first of them that is meant.
    pub first: usize,
    /// How many are.
    pub count: usize,
}

/// Hands out pairs of an expert and some of its outputs, expert by expert, each once.
#[derive(Debug)]
pub struct SlotQueue<'a> {
    all: Pointer<'a>,
    slots: &'a Slots,
    columns: &'a [SlotColumns],
    next: Apart<AtomicUsize>,
}

impl Activations {
    /// Hands out the results of experts. The columns must go upwards and have none in common.
    pub fn split_slots<'a>(&'a mut self, slots: &'a Slots, columns: &'a [SlotColumns]) -> SlotQueue<'a> {
        let mut end = None;
        for &SlotColumns { view, width, first, count } in columns {
            assert!(width * slots.used == view.width && first + count <= width);
            if let Some((before, next)) = end {
                let after: View = before;
                let goes_on = after == view && first >= next;
                let is_behind = after.buffer == view.buffer && after.offset + after.width <= view.offset;
                assert!(goes_on || is_behind, "outputs of experts overlap");
            }
            end = Some((view, first + count));
        }
        assert!(slots.rows <= self.max_rows());
        SlotQueue { all: Pointer::new(self), slots, columns, next: Apart::default() }
    }
}

impl<'a> SlotQueue<'a> {
    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.slots.chosen.len() * self.columns.len()
    }

    /// All that can be had, taken a share at a time: see [`take_share`].
    pub fn in_shares(&self, share: usize) -> impl Iterator<Item = SlotTask<'a>> {
        let SlotQueue { all, slots, columns, .. } = *self;
        let taken = std::iter::from_fn(move || take_share(&self.next, self.len(), share));
        taken.flatten().map(move |index| SlotTask {
            all,
            slots,
            chosen: index / columns.len(),
            part: index % columns.len(),
            columns: columns[index % columns.len()],
        })
    }
}

/// Some outputs of one expert for all rows that chose it, owned by one thread.
#[derive(Debug)]
pub struct SlotTask<'a> {
    all: Pointer<'a>,
    slots: &'a Slots,
    /// Which of [`Slots::chosen`].
    pub chosen: usize,
    /// Which outputs.
    pub part: usize,
    columns: SlotColumns,
}

impl SlotTask<'_> {
    /// How many slots it has.
    pub fn len(&self) -> usize {
        self.slots.chosen[self.chosen].1.len()
    }

    /// The outputs of one of them.
    pub fn write(&mut self, index: usize) -> &mut [f32] {
        let slots = self.slots.chosen[self.chosen].1.clone();
        assert!(index < slots.len());
        let Slot { row, rank } = self.slots.order[slots.start + index];
        let SlotColumns { view, width, first, count } = self.columns;
        let view = view.part(rank * width + first, count);
        // SAFETY: `at` has checked the bounds. Every slot is in one expert's list and there once, and the columns of
        // different parts were checked to be apart, so that no other task has these values; `&mut self` means that no
        // other slice of this task is in use.
        unsafe { std::slice::from_raw_parts_mut(self.all.at(view, row), view.width) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_in_its_experts_list_once() {
        let choices = [[2, 0], [1, 2], [2, 3], [0, 9]];
        let mut slots = Slots::with_capacity(8, 5);
        slots.sort(4, 2, 5, |Slot { row, rank }| choices[row][rank]);
        let lists: Vec<(usize, Vec<(usize, usize)>)> = slots
            .chosen()
            .iter()
            .map(|(expert, range)| {
                (*expert, slots.all()[range.clone()].iter().map(|slot| (slot.row, slot.rank)).collect())
            })
            .collect();
        let expected = [
            (0, vec![(0, 1), (3, 0)]),
            (1, vec![(1, 0)]),
            (2, vec![(0, 0), (1, 1), (2, 0)]),
            (3, vec![(2, 1)]),
            (4, vec![(3, 1)]),
        ];
        assert_eq!(lists, expected);
        slots.sort(0, 2, 5, |_| 0);
        assert!(slots.chosen().is_empty() && slots.all().is_empty());
    }

    #[test]
    fn tasks_cover_all_outputs_exactly_once() {
        let mut all = Activations::new([30].into_iter(), 4).unwrap();
        let mut slots = Slots::with_capacity(6, 3);
        slots.sort(3, 2, 3, |slot| (slot.row + 2 * slot.rank) % 3);
        let view = View { buffer: 0, offset: 2, width: 10 };
        let other = View { buffer: 0, offset: 12, width: 6 };
        let columns = [
            SlotColumns { view, width: 5, first: 0, count: 4 },
            SlotColumns { view, width: 5, first: 4, count: 1 },
            SlotColumns { view: other, width: 3, first: 0, count: 3 },
        ];
        let queue = all.split_slots(&slots, &columns);
        assert_eq!(queue.len(), 9);
        for mut task in queue.in_shares(2) {
            for slot in 0..task.len() {
                task.write(slot).iter_mut().for_each(|x| *x += 1.0);
            }
        }
        for row in 0..4 {
            for (column, x) in all.row(View { buffer: 0, offset: 0, width: 30 }, row).iter().enumerate() {
                assert_eq!(*x, f32::from(u8::from(row < 3 && (2..18).contains(&column))));
            }
        }
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn outputs_that_overlap_are_refused() {
        let mut all = Activations::new([30].into_iter(), 4).unwrap();
        let slots = Slots { used: 2, ..Slots::with_capacity(0, 0) };
        let view = View { buffer: 0, offset: 0, width: 10 };
        let columns = [(0, 4), (3, 2)].map(|(first, count)| SlotColumns { view, width: 5, first, count });
        all.split_slots(&slots, &columns);
    }
}
