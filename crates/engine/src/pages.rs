//! Which KV pages are in use, and by how many. Pure bookkeeping: the pages themselves live in the executor.
//!
//! Pages are held by a [`PageTable`], which gives them back when it is dropped, so that none can be lost, and which
//! knows the pool that they are of.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gleed_model::groups::{NO_PAGE, PageGroup};

use crate::{Error, Result};

/// The pages of one group of KV caches: a free list and one reference count per page. All clones are the same pool.
#[derive(Debug, Clone)]
pub struct PagePool {
    window: Option<usize>,
    book: Arc<Mutex<Book>>,
}

#[derive(Debug)]
struct Book {
    /// Free pages; the last one is given out first, as it is the most likely to be in a CPU cache.
    free: Vec<u32>,
    /// How many tables hold each page; 0 when it is free.
    references: Vec<u32>,
}

impl PagePool {
    /// A pool of pages `0..total`, all free, for caches whose layers see the whole context.
    pub fn new(total: usize) -> Self {
        PagePool::of(PageGroup { window: None, pages: total })
    }

    /// A pool of the pages of a group, all free.
    pub fn of(group: PageGroup) -> Self {
        let total = group.pages;
        let book = Book { free: (0..total as u32).rev().collect(), references: vec![0; total] };
        PagePool { window: group.window, book: Arc::new(Mutex::new(book)) }
    }

    /// How many positions a row sees of its pages; all where there is none.
    pub fn window(&self) -> Option<usize> {
        self.window
    }

    /// Pages there are.
    pub fn total(&self) -> usize {
        self.book().references.len()
    }

    /// Pages that no sequence holds.
    pub fn free(&self) -> usize {
        self.book().free.len()
    }

    /// How many hold a page.
    pub fn references(&self, page: u32) -> u32 {
        self.book().references[page as usize]
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // No change of the book can panic half-way, so it is right even after a panic elsewhere.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, other: &PagePool) -> bool {
        Arc::ptr_eq(&self.book, &other.book)
    }
}

/// Pages of one pool in the order of the positions that they hold, some of which may be missing. They are given back when
/// it is dropped.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    /// None while there are no pages.
    pool: Option<PagePool>,
    pages: Vec<u32>,
}

impl PageTable {
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The window of its pages, if it has any.
    pub(crate) fn window(&self) -> Option<usize> {
        self.pool.as_ref()?.window
    }

    /// Whether its pages, if it has any, are of this pool.
    pub(crate) fn is_of(&self, pool: &PagePool) -> bool {
        self.pool.as_ref().is_none_or(|own| own.is(pool))
    }

    /// Appends free pages of the pool that it is of. All or nothing.
    pub(crate) fn grow(&mut self, pool: &PagePool, count: usize) -> Result<()> {
        assert!(self.is_of(pool), "a table has pages of one pool");
        if count == 0 {
            return Ok(());
        }
        let mut book = pool.book();
        let (free, total) = (book.free.len(), book.references.len());
        let Some(left) = free.checked_sub(count) else {
            return Err(Error::NoPages { needed: count, free, total });
        };
        self.pages.extend(book.free.drain(left..).rev());
        for page in &self.pages[self.pages.len() - count..] {
            book.references[*page as usize] = 1;
        }
        self.pool.get_or_insert_with(|| pool.clone());
        Ok(())
    }

    /// Gives back all but the first `length` pages.
    pub(crate) fn truncate(&mut self, length: usize) {
        if length < self.pages.len() {
            self.give_back(length..self.pages.len());
            self.pages.truncate(length);
        }
        if self.pages.is_empty() {
            self.pool = None;
        }
    }

    /// Gives back the pages of a range, which are missing then.
    pub(crate) fn give_back(&mut self, range: Range<usize>) {
        let Some(pages) = self.pages.get_mut(range) else { return };
        let Some(pool) = self.pool.as_ref().filter(|_| pages.iter().any(|page| *page != NO_PAGE)) else {
            return;
        };
        let mut book = pool.book();
        for page in pages.iter_mut().filter(|page| **page != NO_PAGE) {
            let page = std::mem::replace(page, NO_PAGE);
            let references = &mut book.references[page as usize];
            *references -= 1;
            if *references == 0 {
                book.free.push(page);
            }
        }
    }

    /// The last page of a range that is missing.
    pub(crate) fn last_missing(&self, range: Range<usize>) -> Option<usize> {
        range.rev().find(|page| self.pages.get(*page).is_none_or(|page| *page == NO_PAGE))
    }

    /// Another holder of the first `length` pages.
    pub(crate) fn share(&self, length: usize) -> PageTable {
        let Some(pool) = self.pool.clone().filter(|_| length > 0) else { return PageTable::default() };
        let pages = self.pages[..length].to_vec();
        let mut book = pool.book();
        let held = pages.iter().filter(|page| **page != NO_PAGE);
        held.for_each(|page| book.references[*page as usize] += 1);
        drop(book);
        PageTable { pool: Some(pool), pages }
    }

    /// Whether others hold a page too.
    pub(crate) fn is_shared(&self, index: usize) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.references(self.pages[index]) > 1)
    }

    /// Puts the last page in the place of another, which goes to a table of its own.
    pub(crate) fn replace_by_last(&mut self, index: usize) -> PageTable {
        let page = self.pages.swap_remove(index);
        PageTable { pool: self.pool.clone(), pages: vec![page] }
    }

    /// Exchanges a page with the first one of another table of the same pool.
    pub(crate) fn exchange(&mut self, index: usize, other: &mut PageTable) {
        std::mem::swap(&mut self.pages[index], &mut other.pages[0]);
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        self.truncate(0);
    }
}
