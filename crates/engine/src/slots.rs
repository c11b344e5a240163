//! Which state slots are in use. Pure bookkeeping: what they hold lives in the executor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state slots of an executor of a program with recurrent layers. All clones are the same pool.
#[derive(Debug, Clone)]
pub struct SlotPool(Arc<Book>);

#[derive(Debug)]
struct Book {
    total: usize,
    /// The last one is given out first.
    free: Mutex<Vec<u32>>,
}

impl SlotPool {
    /// A pool of slots `0..total`, all free.
    pub fn new(total: usize) -> Self {
        SlotPool(Arc::new(Book { total, free: Mutex::new((0..total as u32).rev().collect()) }))
    }

    /// Slots there are.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// Slots that no sequence holds.
    pub fn free(&self) -> usize {
        self.list().len()
    }

    /// A free slot, if there is one.
    pub(crate) fn take(&self) -> Option<Slot> {
        let number = self.list().pop()?;
        Some(Slot(Arc::new(Held { number, pool: self.clone() })))
    }

    fn list(&self) -> MutexGuard<'_, Vec<u32>> {
        // No change of the list can panic half-way, so it is right even after a panic elsewhere.
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot and its holders; the last one's end gives it back.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Arc<Held>);

#[derive(Debug)]
struct Held {
    number: u32,
    pool: SlotPool,
}

impl Slot {
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pool.list().push(self.number);
    }
}
