//! Buffers that several threads write at once, each its own part.
//!
//! Everything here is safe to use: work is handed out in parts that cannot overlap, because each part
//! is handed out once, by an atomic counter, and because what is read and what is written is checked
//! to be apart. The `unsafe` that turns this into slices is all in this file.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gleed_model::program::View;

use super::dot::Rows;
use crate::memory::Large;

/// The activations of a program: for each buffer a matrix `[rows][width]` of f32, all in one allocation.
#[derive(Debug)]
pub struct Activations {
    values: Large<f32>,
    matrices: Vec<Matrix>,
    max_rows: usize,
}

/// Where a buffer lies.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    start: usize,
    width: usize,
}

impl Activations {
    /// Buffers of these widths, for this many rows, all zero; `None` when memory does not suffice.
    pub fn new(widths: impl Iterator<Item = usize>, max_rows: usize) -> Option<Activations> {
        let mut start = 0usize;
        let mut matrices = Vec::new();
        for width in widths {
            matrices.push(Matrix { start, width });
            start = start.checked_add(width.checked_mul(max_rows)?)?;
        }
        Some(Activations { values: Large::zeros(start)?, matrices, max_rows })
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// The most rows of a buffer.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// One row of a view.
    pub fn row(&self, view: View, row: usize) -> &[f32] {
        &self.values[self.at(view, row)]
    }

    /// The first rows of a view.
    pub fn rows(&self, view: View, count: usize) -> Rows<'_> {
        let values = match count {
            0 => &[],
            _ => &self.values[self.at(view, 0).start..self.at(view, count - 1).end],
        };
        Rows { values, stride: self.matrices[view.buffer].width, count }
    }

    /// One row of a view, to be changed.
    pub fn row_mut(&mut self, view: View, row: usize) -> &mut [f32] {
        let at = self.at(view, row);
        &mut self.values[at]
    }

    /// One row of a view, to be changed, and a later one.
    pub fn two_rows(&mut self, view: View, first: usize, later: usize) -> (&mut [f32], &[f32]) {
        assert!(first < later);
        let (first, later) = (self.at(view, first), self.at(view, later));
        let (before, rest) = self.values.split_at_mut(later.start);
        (&mut before[first], &rest[..view.width])
    }

    /// Copies one row of a view to another row.
    pub fn copy_row(&mut self, view: View, from: usize, to: usize) {
        let (from, to) = (self.at(view, from), self.at(view, to));
        self.values.copy_within(from, to.start);
    }

    fn at(&self, view: View, row: usize) -> Range<usize> {
        let Matrix { start, width } = self.matrices[view.buffer];
        assert!(view.offset + view.width <= width && row < self.max_rows);
        let start = start + row * width + view.offset;
        start..start + view.width
    }

    /// Hands out the first `rows` rows one by one, each with all its buffers.
    pub fn split_rows(&mut self, rows: usize) -> RowQueue<'_> {
        assert!(rows <= self.max_rows);
        RowQueue { all: Pointer::new(self), rows, next: AtomicUsize::new(0) }
    }

    /// Hands out the rectangles of a view, to change in place; meanwhile all rows of `inputs`, which must
    /// be apart from the view, can be read.
    pub fn split_view<'a, const N: usize>(
        &'a mut self,
        inputs: [View; N],
        out: View,
        rows: &'a Boundaries,
        columns: &'a Boundaries,
    ) -> ([Source<'a>; N], RectangleQueue<'a>) {
        assert!(inputs.iter().all(|input| is_apart(*input, out)), "an op reads and writes the same columns");
        let row_count = rows.end();
        assert!(row_count <= self.max_rows && columns.end() <= out.width);
        let all = Pointer::new(self);
        let sources = inputs.map(|view| Source {
            all,
            view,
            rows: row_count,
            has_own_buffer: view.buffer != out.buffer,
        });
        let next = AtomicUsize::new(0);
        (sources, RectangleQueue { all, view: out, rows, columns, by_columns: false, next })
    }
}

/// So many zeros, whose memory is not touched before it is used; `None` when it cannot be had.
pub fn zeros<T: bytemuck::Zeroable>(count: usize) -> Option<Box<[T]>> {
    let bytes = count.checked_mul(size_of::<T>())?;
    (bytes <= isize::MAX as usize).then(|| bytemuck::try_zeroed_slice_box(count).ok()).flatten()
}

/// Whether two views share no column.
pub fn is_apart(a: View, b: View) -> bool {
    a.buffer != b.buffer || a.offset + a.width <= b.offset || b.offset + b.width <= a.offset
}

/// All activations, borrowed exclusively, for parts to be made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer<'a> {
    values: *mut f32,
    matrices: &'a [Matrix],
    max_rows: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for an exclusive borrow of f32 values, which may be used from any thread; that no
// two threads use the same value is up to those who hand out parts.
unsafe impl Send for Pointer<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pointer<'_> {}

impl<'a> Pointer<'a> {
    pub(super) fn new(all: &'a mut Activations) -> Pointer<'a> {
        let values = all.values.as_mut_ptr();
        Pointer { values, matrices: &all.matrices, max_rows: all.max_rows, borrow: PhantomData }
    }

    /// The start of a row of a view, checked to lie inside its buffer.
    pub(super) fn at(self, view: View, row: usize) -> *mut f32 {
        let Matrix { start, width } = self.matrices[view.buffer];
        assert!(view.offset + view.width <= width && row < self.max_rows);
        // SAFETY: buffers have `max_rows` rows of `width` values from `start` on, so this is inside.
        unsafe { self.values.add(start + row * width + view.offset) }
    }
}

/// Hands out rows, each once.
#[derive(Debug)]
pub struct RowQueue<'a> {
    all: Pointer<'a>,
    rows: usize,
    next: AtomicUsize,
}

impl<'a> RowQueue<'a> {
    /// The next row, to whoever asks first.
    pub fn next(&self) -> Option<WholeRow<'a>> {
        let row = self.next.fetch_add(1, Relaxed);
        (row < self.rows).then_some(WholeRow { all: self.all, row })
    }
}

/// One row of all buffers, owned by one thread.
#[derive(Debug)]
pub struct WholeRow<'a> {
    all: Pointer<'a>,
    row: usize,
}

impl WholeRow<'_> {
    /// Which row.
    pub fn index(&self) -> usize {
        self.row
    }

    /// A view of it, to write.
    pub fn write(&mut self, view: View) -> &mut [f32] {
        // SAFETY: `at` has checked the bounds. Nobody else has this row, and `&mut self` means that no
        // other slice of it is in use.
        unsafe { std::slice::from_raw_parts_mut(self.all.at(view, self.row), view.width) }
    }

    /// Some views of it to read and one, apart from them, to write.
    pub fn read_write<const N: usize>(&mut self, read: [View; N], write: View) -> ([&[f32]; N], &mut [f32]) {
        assert!(read.iter().all(|read| is_apart(*read, write)), "an op reads and writes the same columns");
        // SAFETY: as in `write`; what is read is apart from what is written.
        let read = read.map(|view| unsafe {
            std::slice::from_raw_parts(self.all.at(view, self.row).cast_const(), view.width)
        });
        (read, self.write(write))
    }
}

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
    next: AtomicUsize,
}

impl<'a> RectangleQueue<'a> {
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

    /// The next `count` rectangles (the last time fewer), to whoever asks first; none when all are gone.
    pub fn next(&self, count: usize) -> Option<impl Iterator<Item = Rectangle<'a>> + use<'a>> {
        let (total, first) = (self.len(), self.next.fetch_add(count, Relaxed));
        (first < total).then(|| self.rectangles(first..total.min(first + count)))
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
pub(super) fn take_share(next: &AtomicUsize, total: usize, share: usize) -> Option<Range<usize>> {
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
        assert!(rectangles.rows.len() == 1 && rectangles.columns.len() == blocks.count);
        Paired { rectangles, blocks }
    }

    /// The next of both, to whoever asks first.
    pub fn next(&self) -> Option<(Rectangle<'a>, Block<'_, 'a, T>)> {
        let block = self.blocks.next()?;
        // This is the only counter: nobody else takes rectangles, and each index comes once.
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
        // is handed out once, so nobody else has this rectangle; `&mut self` means that no other slice
        // of it is in use. What others read meanwhile is apart from the view.
        unsafe { std::slice::from_raw_parts_mut(self.all.at(view, row), view.width) }
    }
}

/// All rows of a view, readable while other columns are written.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    all: Pointer<'a>,
    view: View,
    rows: usize,
    has_own_buffer: bool,
}

impl<'a> Source<'a> {
    /// One row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.rows);
        // SAFETY: `at` has checked the bounds. The view is apart from the only one that is written while
        // this borrow of the activations lasts.
        unsafe { std::slice::from_raw_parts(self.all.at(self.view, row).cast_const(), self.view.width) }
    }

    /// All rows at once; nothing else of their buffer may be written meanwhile.
    pub fn rows(&self) -> Rows<'a> {
        assert!(self.has_own_buffer, "an op reads and writes the same buffer");
        let Some(last) = self.rows.checked_sub(1) else {
            return Rows { values: &[], stride: 0, count: 0 };
        };
        let stride = self.all.matrices[self.view.buffer].width;
        let (first, _) = (self.all.at(self.view, 0), self.all.at(self.view, last));
        // SAFETY: from the first row's start to the last row's end, both checked by `at`, and nothing of
        // this buffer is written while this borrow of the activations lasts.
        let values =
            unsafe { std::slice::from_raw_parts(first.cast_const(), last * stride + self.view.width) };
        Rows { values, stride, count: self.rows }
    }
}

/// Hands out the columns of blocks of a slice `[repeats][count][block]`, each once: the heads of a
/// cache, whose blocks are `[page][head]`, or with one repeat plainly its blocks.
#[derive(Debug)]
pub struct BlockQueue<'a, T> {
    values: *mut T,
    /// Values of the slice.
    total: usize,
    count: usize,
    block: usize,
    next: AtomicUsize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of the slice, and `next` gives each block to one thread.
unsafe impl<T: Send> Sync for BlockQueue<'_, T> {}

impl<'a, T> BlockQueue<'a, T> {
    /// Of a slice of `[repeats][count][block]` values.
    pub fn new(values: &'a mut [T], count: usize, block: usize) -> BlockQueue<'a, T> {
        let (total, values) = (values.len(), values.as_mut_ptr());
        BlockQueue { values, total, count, block, next: AtomicUsize::new(0), borrow: PhantomData }
    }

    /// How many there are in all.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The next block, to whoever asks first.
    pub fn next(&self) -> Option<Block<'_, 'a, T>> {
        let index = self.next.fetch_add(1, Relaxed);
        (index < self.count).then_some(Block { queue: self, index })
    }
}

/// One block of every repeat, owned by one thread.
#[derive(Debug)]
pub struct Block<'q, 'a, T> {
    queue: &'q BlockQueue<'a, T>,
    index: usize,
}

impl<T> Block<'_, '_, T> {
    /// Which block.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The block in one repeat.
    pub fn of(&mut self, repeat: usize) -> &mut [T] {
        let BlockQueue { values, total: len, count, block, .. } = *self.queue;
        let start = (repeat * count + self.index) * block;
        assert!(start + block <= len);
        // SAFETY: inside the slice; nobody else has this index, blocks of different indices do not
        // overlap, and `&mut self` means that no other block of it is in use.
        unsafe { std::slice::from_raw_parts_mut(values.add(start), block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn every_row_and_every_block_is_handed_out_once() {
        let mut all = Activations::new([4].into_iter(), 6).unwrap();
        let queue = all.split_rows(5);
        while let Some(mut row) = queue.next() {
            let value = row.index() as f32 + 1.0;
            let ([a, _], out) = row.read_write([view(0, 2, 2); 2], view(0, 0, 2));
            out.copy_from_slice(&[a[0] + value, value]);
        }
        let sum: f32 = (0..6).map(|row| all.row(view(0, 1, 1), row)[0]).sum();
        assert_eq!(sum, 15.0);

        let mut values = vec![0; 2 * 3 * 4];
        let queue = BlockQueue::new(&mut values, 3, 4);
        while let Some(mut block) = queue.next() {
            let index = block.index();
            for page in 0..2 {
                block.of(page).iter_mut().for_each(|x| *x += 10 * page + index);
            }
        }
        let expected: Vec<usize> = (0..24).map(|i| 10 * (i / 12) + i / 4 % 3).collect();
        assert_eq!(values, expected);
    }

    #[test]
    #[should_panic(expected = "same columns")]
    fn reading_what_is_written_is_refused() {
        let mut all = Activations::new([4].into_iter(), 2).unwrap();
        let ends = Boundaries::equal(2, 1);
        all.split_view([view(0, 0, 3)], view(0, 2, 2), &ends, &ends);
    }

    #[test]
    #[should_panic]
    fn rows_past_the_end_are_refused() {
        let all = Activations::new([4].into_iter(), 2).unwrap();
        all.row(view(0, 0, 4), 2);
    }
}
