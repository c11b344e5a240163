//! Which KV pages are in use, and by how many. Pure bookkeeping: the pages themselves live in the executor.

use crate::{Error, Result};

/// The pages of a KV cache: a free list and one reference count per page.
#[derive(Debug, Clone)]
pub struct PagePool {
    /// Free pages; the last one is given out first, as it is the most likely to be in a CPU cache.
    free: Vec<u32>,
    /// Who holds each page; 0 when it is free.
    references: Vec<u32>,
}

impl PagePool {
    /// A pool of pages `0..total`, all free.
    pub fn new(total: usize) -> Self {
        PagePool { free: (0..total as u32).rev().collect(), references: vec![0; total] }
    }

    /// Pages there are.
    pub fn total(&self) -> usize {
        self.references.len()
    }

    /// Pages that nobody holds.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many hold a page.
    pub fn references(&self, page: u32) -> u32 {
        self.references[page as usize]
    }

    /// Appends `count` free pages to `out`, each with one reference. All or nothing.
    pub(crate) fn allocate(&mut self, count: usize, out: &mut Vec<u32>) -> Result<()> {
        let free = self.free();
        let Some(left) = free.checked_sub(count) else {
            return Err(Error::NoPages { needed: count, free, total: self.total() });
        };
        for page in self.free.drain(left..).rev() {
            self.references[page as usize] = 1;
            out.push(page);
        }
        Ok(())
    }

    /// Adds a reference to a page in use.
    pub(crate) fn retain(&mut self, page: u32) {
        assert!(self.references[page as usize] > 0, "page {page} is free");
        self.references[page as usize] += 1;
    }

    /// Drops a reference; the last one frees the page.
    pub(crate) fn release(&mut self, page: u32) {
        let references = &mut self.references[page as usize];
        assert!(*references > 0, "page {page} is free");
        *references -= 1;
        if *references == 0 {
            self.free.push(page);
        }
    }
}
