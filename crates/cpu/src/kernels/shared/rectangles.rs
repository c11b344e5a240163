//! Parts of a view's rows and columns, for threads to write.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gleed_model::program::View;

use super::{Block, BlockQueue, Pointer, take};
use crate::kernels::apart::Apart;

/// Where parts of a range begin and end: 0, then ascending.
#[derive(Debug, Clone)]
pub struct Boundaries(Vec<usize>);

impl Boundaries {
    /// No part yet, and memory for this many.
    pub fn with_capacity(parts: usize) -> Boundaries {
        let mut ends = Vec::with_capacity(parts + 1);
        ends.push(0);
        Boundaries(ends)
    }

    /// Equal parts of `width`, as many as fit in `end` and a last shorter one.
    pub fn equal(end: usize, width: usize) -> Boundaries {
        let mut boundaries = Boundaries::with_capacity(end.div_ceil(width));
        boundaries.push_equal(end, width);
        boundaries
    }

    /// Forgets all parts, keeping the memory.
    pub fn clear(&mut self) {
        self.0.truncate(1);
    }

    /// Adds a part that ends there.
    pub fn push(&mut self, end: usize) {
        assert!(end >= self.end(), "parts go upwards");
        self.0.push(end);
    }

    /// Adds parts of `width` up to `end`, the last of which may be shorter.
    pub fn push_equal(&mut self, end: usize, width: usize) {
        while self.end() < end {
            self.push(end.min(self.end() + width));
        }
    }

    /// Where the last part ends.
    pub fn end(&self) -> usize {
        self.0[self.0.len() - 1]
    }

    /// How many parts.
    pub fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// One part.
    pub fn part(&self, index: usize) -> Range<usize> {
        self.0[index]..self.0[index + 1]
    }
}

/// Hands out the rectangles of a view (a part of its rows, a part of its columns), each once.
#[derive(Debug)]
pub struct RectangleQueue<'a> {
    all: Pointer<'a>,
    view: View,
    rows: &'a Boundaries,
    columns: &'a Boundaries,
    /// Whether all rows of a part of the columns follow each other.
    by_columns: bool,
    next: Apart<AtomicUsize>,
}

impl<'a> RectangleQueue<'a> {
    /// Of a view, of which nothing else is used meanwhile.
    pub(super) fn new(
        all: Pointer<'a>,
        view: View,
        rows: &'a Boundaries,
        columns: &'a Boundaries,
    ) -> RectangleQueue<'a> {
        RectangleQueue { all, view, rows, columns, by_columns: false, next: Apart::default() }
    }

    /// The same, part by part of the columns instead of the rows, the last rows first.
    pub fn column_by_column(self) -> RectangleQueue<'a> {
        RectangleQueue { by_columns: true, ..self }
    }

    /// How many rectangles there are.
    pub fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// All that can be had, taken `count` at a time.
    pub fn in_chunks(&self, count: usize) -> impl Iterator<Item = Rectangle<'a>> {
        std::iter::from_fn(move || self.next(count)).flatten()
    }

    /// The next `count` rectangles (the last time fewer), to the thread that asks first; none when all are gone.
    pub fn next(&self, count: usize) -> Option<impl Iterator<Item = Rectangle<'a>> + use<'a>> {
        take(&self.next, self.len(), count).map(|range| self.rectangles(range))
    }

    /// All that can be had, taken a share at a time: see [`take_share`].
    pub fn in_shares(&self, share: usize) -> impl Iterator<Item = Rectangle<'a>> {
        let taken = std::iter::from_fn(move || take_share(&self.next, self.len(), share));
        taken.flat_map(|range| self.rectangles(range))
    }

    /// Some of them, which must have been taken.
    fn rectangles(&self, range: Range<usize>) -> impl Iterator<Item = Rectangle<'a>> + use<'a> {
        let RectangleQueue { all, view, rows, columns, by_columns, .. } = *self;
        range.map(move |index| {
            let (row_part, column_part) = if by_columns {
                (rows.len() - 1 - index % rows.len(), index / rows.len())
            } else {
                (index / columns.len(), index % columns.len())
            };
            let (rows, columns) = (rows.part(row_part), columns.part(column_part));
            Rectangle { all, view, row_part, rows, column_part, columns }
        })
    }
}

/// Takes one part in `share` of what is left of `total` pieces of work, at least one: much at first, so that a thread
/// mostly goes on where it is, and little at the end, so that all threads end together.
pub(in crate::kernels) fn take_share(next: &AtomicUsize, total: usize, share: usize) -> Option<Range<usize>> {
    let end = |first: usize| first + ((total - first) / share).max(1);
    let taken = next.fetch_update(Relaxed, Relaxed, |first| (first < total).then(|| end(first)));
    taken.ok().map(|first| first..end(first))
}

/// Hands out the parts of a view's columns, each with the blocks of the same index.
#[derive(Debug)]
pub struct Paired<'a, T> {
    rectangles: RectangleQueue<'a>,
    blocks: BlockQueue<'a, T>,
}

impl<'a, T> Paired<'a, T> {
    /// Of rectangles that have all rows, as many as there are blocks.
    pub fn new(rectangles: RectangleQueue<'a>, blocks: BlockQueue<'a, T>) -> Paired<'a, T> {
        assert!(rectangles.rows.len() == 1 && rectangles.columns.len() == blocks.len());
        Paired { rectangles, blocks }
    }

    /// The next of both, to the thread that asks first.
    pub fn next(&self) -> Option<(Rectangle<'a>, Block<'_, 'a, T>)> {
        let block = self.blocks.next()?;
        // This is the only counter: rectangles are taken nowhere else, and each index comes once.
        let RectangleQueue { all, view, rows, columns, .. } = self.rectangles;
        let (rows, column_part) = (rows.part(0), block.index());
        let columns = columns.part(column_part);
        Some((Rectangle { all, view, row_part: 0, rows, column_part, columns }, block))
    }
}

/// Some rows and columns of a view, owned by one thread.
#[derive(Debug)]
pub struct Rectangle<'a> {
    all: Pointer<'a>,
    view: View,
    /// Which part of the rows.
    pub row_part: usize,
    rows: Range<usize>,
    /// Which part of the columns.
    pub column_part: usize,
    columns: Range<usize>,
}

impl Rectangle<'_> {
    /// Its rows.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Its columns of one of its rows.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(self.rows.contains(&row));
        let view = self.view.part(self.columns.start, self.columns.len());
        // SAFETY: `at` has checked the bounds. The parts of `Boundaries` do not overlap and each index
        // is handed out once, so no other thread has this rectangle; `&mut self` means that no other slice
        // of it is in use. What others read meanwhile is apart from the view.
        unsafe { std::slice::from_raw_parts_mut(self.all.at(view, row), view.width) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::shared::Activations;

    fn view(buffer: usize, offset: usize, width: usize) -> View {
        View { buffer, offset, width }
    }

    #[test]
    fn rectangles_cover_a_view_exactly_once() {
        let mut all = Activations::new([3, 20].into_iter(), 7).unwrap();
        let (rows, columns) = (Boundaries::equal(5, 2), Boundaries::equal(9, 4));
        let ([source], queue) = all.split_view([view(0, 0, 3)], view(1, 6, 9), &rows, &columns);
        assert_eq!((source.row(4), source.rows().values.len()), (&[0.0; 3][..], 15));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for mut rectangle in queue.in_chunks(2) {
                        for row in rectangle.rows() {
                            rectangle.row(row).iter_mut().for_each(|x| *x += 1.0);
                        }
                    }
                });
            }
        });
        for row in 0..7 {
            for column in 0..20 {
                let inside = row < 5 && (6..15).contains(&column);
                assert_eq!(all.row(view(1, 0, 20), row)[column], f32::from(u8::from(inside)));
            }
            assert_eq!(all.row(view(0, 0, 3), row), [0.0; 3]);
        }
    }

    #[test]
    fn shares_become_smaller_and_are_handed_out_once() {
        for (total, share, expected) in [
            (0, 6, vec![]),
            (20, 6, vec![3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
            (9, 3, vec![3, 2, 1, 1, 1, 1]),
        ] {
            let next = AtomicUsize::new(0);
            let shares: Vec<_> = std::iter::from_fn(|| take_share(&next, total, share)).collect();
            assert_eq!(shares.iter().map(|range| range.len()).collect::<Vec<_>>(), expected);
            assert!(shares.into_iter().flatten().eq(0..total));
        }
        let mut all = Activations::new([50].into_iter(), 2).unwrap();
        let (rows, columns) = (Boundaries::equal(2, 2), Boundaries::equal(50, 1));
        let ([], queue) = all.split_view([], view(0, 0, 50), &rows, &columns);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| queue.in_shares(6).for_each(|mut part| part.row(1)[0] += 1.0));
            }
        });
        assert_eq!(all.row(view(0, 0, 50), 1), [1.0; 50]);
    }

    #[test]
    fn columns_can_come_first_with_the_last_rows_in_front() {
        let mut all = Activations::new([20].into_iter(), 7).unwrap();
        let (rows, columns) = (Boundaries::equal(5, 2), Boundaries::equal(9, 8));
        let ([], queue) = all.split_view([], view(0, 0, 9), &rows, &columns);
        let queue = queue.column_by_column();
        let mut order = Vec::new();
        while let Some(rectangles) = queue.next(4) {
            order.extend(rectangles.map(|r| (r.row_part, r.rows(), r.column_part, r.columns.clone())));
        }
        let rows = [(2, 4..5), (1, 2..4), (0, 0..2)];
        let expected = [(0, 0..8), (1, 8..9)].into_iter().flat_map(|(part, columns)| {
            rows.clone().map(|(row_part, rows)| (row_part, rows, part, columns.clone()))
        });
        assert_eq!(order, expected.collect::<Vec<_>>());
    }
}
