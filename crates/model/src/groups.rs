//! Page groups: which caches share the pages of a sequence.
//!
//! A layer that sees only a window needs only the pages that its window is in, and one that sees the whole context needs
//! all. A chunk is part of a window of its length. The caches of a program therefore fall into groups by the window of
//! the attention that reads them, and each group has pages of its own, under numbers of its own: a sequence gives back
//! those that its window has left.

use crate::arithmetic::PAGE;
use crate::operands::{Access, Operand};
use crate::program::{Op, Program};

/// The page of a table that is not there, because its positions are left of the group's window.
pub const NO_PAGE: u32 = u32::MAX;

/// Which group each cache of a program is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageGroups {
    /// The window of each group. The first one has none, even if no cache is in it; the others ascend.
    windows: Vec<Option<usize>>,
    /// The group of each cache.
    of_caches: Vec<usize>,
}

/// The pages of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageGroup {
    /// How many positions a row sees, its own among them; all up to its own where there is none.
    pub window: Option<usize>,
    /// How many pages there are; page numbers are below this.
    pub pages: usize,
}

impl PageGroups {
    /// Those of a program.
    pub fn of(program: &Program) -> PageGroups {
        let windows: Vec<Option<usize>> =
            (0..program.caches.len()).map(|cache| window_of(program, cache)).collect();
        let mut all: Vec<Option<usize>> = windows.clone();
        all.push(None);
        all.sort_unstable();
        all.dedup();
        let group = |window| all.binary_search(window).unwrap_or(0);
        PageGroups { of_caches: windows.iter().map(group).collect(), windows: all }
    }

    /// The group of a cache.
    pub fn of_cache(&self, cache: usize) -> usize {
        self.of_caches[cache]
    }

    /// The window of each group.
    pub fn windows(&self) -> &[Option<usize>] {
        &self.windows
    }

    /// The groups with `pages` pages each; those with a window have as many as `sequences` sequences need in steps of
    /// at most `rows` rows, where they are counted and that is less.
    pub fn with_pages(&self, pages: usize, rows: usize, sequences: Option<usize>) -> Vec<PageGroup> {
        let group = |window: &Option<usize>| {
            let enough =
                window.zip(sequences).map(|(window, count)| count.saturating_mul(plenty(window, rows)));
            PageGroup { window: *window, pages: enough.map_or(pages, |enough| enough.min(pages)) }
        };
        self.windows.iter().map(group).collect()
    }
}

impl PageGroup {
    /// The first page of its table that a row at a position sees.
    pub fn first_page(&self, position: usize) -> usize {
        self.window.map_or(0, |window| first_page(window, position))
    }
}

/// The first page that a row at a position sees through a window.
pub fn first_page(window: usize, position: usize) -> usize {
    (position + 1).saturating_sub(window) / PAGE
}

/// The window of all that read a cache, where they have the same one and see nothing after their own position.
fn window_of(program: &Program, cache: usize) -> Option<usize> {
    let mut windows = program.nodes.iter().filter_map(|node| match &node.op {
        Op::Attention { attention, .. } if attention.cache == cache => {
            Some(attention.reach().filter(|_| attention.causal))
        }
        op => reads(op, cache).then_some(None),
    });
    let first = windows.next()??;
    windows.all(|window| window == Some(first)).then_some(first)
}

/// Whether an op reads a cache.
fn reads(op: &Op, cache: usize) -> bool {
    let mut found = false;
    op.each_operand(&mut |operand| {
        found |= matches!(operand, Operand::Cache(read, access) if *read == cache && access != Access::Write);
    });
    found
}

/// The least pages with which a sequence of any length can do in steps of `rows` rows.
pub fn least(window: usize, rows: usize) -> usize {
    span(window.saturating_add(rows))
}

/// Pages that a sequence uses when none are scarce: for a step, and to go back a page's length before its end and
/// before the end of its prompt, and one that is copied.
fn plenty(window: usize, rows: usize) -> usize {
    let back = window.saturating_add(PAGE);
    span(back.saturating_add(rows)).saturating_add(span(back)).saturating_add(1)
}

/// The most pages that `positions` neighbouring positions are in.
fn span(positions: usize) -> usize {
    positions.saturating_add(PAGE - 2) / PAGE + 1
}

/// The largest number up to `most` that fits, where all smaller ones fit too: how many pages there is room for.
pub fn most_that(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut too_many) = (0, most.saturating_add(1));
    while too_many - fitting > 1 {
        let middle = fitting + (too_many - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_many = middle }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Attention, KvLayer, Node, View};
    use crate::shapes::Shape;

    /// A program that does nothing but read caches: the cache, whether causally, and the window.
    fn program(reads: &[(usize, bool, Option<usize>)]) -> Program {
        let mut program = Shape::find("llama3.2-1b").unwrap().model().unwrap().program;
        let view = View { buffer: 0, offset: 0, width: 1 };
        let node = |&(cache, causal, window): &(usize, bool, Option<usize>)| {
            let attention = Attention { causal, window, ..Attention::over_all(cache, 1, 1.0) };
            Node { op: Op::Attention { attention, query: view, out: view }, labels: vec![], layer: None }
        };
        program.nodes = reads.iter().map(node).collect();
        let caches = reads.iter().map(|read| read.0 + 1).max().unwrap_or(0);
        program.caches = vec![KvLayer { heads: 1, key_dim: 1, value_dim: 1 }; caches];
        program
    }

    fn groups(reads: &[(usize, bool, Option<usize>)]) -> (Vec<Option<usize>>, Vec<usize>) {
        let groups = PageGroups::of(&program(reads));
        (groups.windows, groups.of_caches)
    }

    #[test]
    fn caches_are_grouped_by_what_reads_them() {
        assert_eq!(groups(&[]), (vec![None], vec![]));
        assert_eq!(groups(&[(0, true, None)]), (vec![None], vec![0]));
        // The group without a window is there even if nothing is in it.
        assert_eq!(groups(&[(0, true, Some(9)), (1, true, Some(9))]), (vec![None, Some(9)], vec![1, 1]));
        let three = [(0, true, Some(9)), (1, true, None), (2, true, Some(4)), (3, true, Some(9))];
        assert_eq!(groups(&three), (vec![None, Some(4), Some(9)], vec![2, 0, 1, 2]));
        // Read with a window and without one, with two windows, and both ways.
        assert_eq!(groups(&[(0, true, Some(9)), (0, true, None)]), (vec![None], vec![0]));
        assert_eq!(groups(&[(0, true, Some(9)), (0, true, Some(8))]), (vec![None], vec![0]));
        assert_eq!(groups(&[(0, true, Some(9)), (0, true, Some(9))]), (vec![None, Some(9)], vec![1]));
        assert_eq!(groups(&[(0, false, Some(9))]), (vec![None], vec![0]));
    }

    #[test]
    fn chunks_are_kept_as_windows() {
        let mut program = program(&[(0, true, None), (1, true, Some(9)), (2, true, Some(20))]);
        for node in &mut program.nodes {
            if let Op::Attention { attention, .. } = &mut node.op {
                attention.chunk = Some(12);
                let reach = attention.reach().unwrap();
                let sees = |position: usize| attention.visible(position, 100).len();
                assert_eq!((0..100).map(sees).max(), Some(reach));
                assert!(
                    (0..100).all(|at| attention.visible(at, 100).start >= (at + 1).saturating_sub(reach))
                );
            }
        }
        assert_eq!(PageGroups::of(&program).windows(), [None, Some(9), Some(12)]);
    }

    #[test]
    fn real_shapes_keep_what_their_windows_see() {
        let groups = |shape: &str| PageGroups::of(&Shape::find(shape).unwrap().model().unwrap().program);
        let gemma = groups("gemma3-1b");
        assert_eq!(gemma.windows(), [None, Some(512)]);
        let whole = (0..26).filter(|layer| gemma.of_cache(*layer) == 0).collect::<Vec<_>>();
        assert_eq!(whole, [5, 11, 17, 23]);
        let pages =
            |sequences| gemma.with_pages(512, 512, sequences).iter().map(|g| g.pages).collect::<Vec<_>>();
        assert_eq!(pages(None), [512, 512]);
        // 1088 positions and 576, and a page to copy.
        assert_eq!(pages(Some(1)), [512, 18 + 10 + 1]);
        assert_eq!(pages(Some(100)), [512, 512]);
        assert_eq!(groups("llama3.2-1b").windows(), [None]);
    }

    /// The pages that a number of neighbouring positions are in, counted.
    #[test]
    fn spans_are_the_most_pages() {
        for positions in 1..200 {
            let pages = |first: usize| (first + positions - 1) / PAGE - first / PAGE + 1;
            assert_eq!(span(positions), (0..PAGE).map(pages).max().unwrap(), "{positions}");
        }
    }

    #[test]
    fn searching_finds_the_largest() {
        for most in 0..20 {
            for fitting in 0..25 {
                assert_eq!(most_that(most, |n| n <= fitting), most.min(fitting));
            }
        }
    }
}
