//! Buffers that several threads write at once, each its own part.
//!
//! Everything here is safe to use: work is handed out in parts that cannot overlap, because each part
//! is handed out once, by an atomic counter, and because what is read and what is written is checked
//! to be apart. The `unsafe` that turns this into slices is all in this folder.

mod blocks;
mod rectangles;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gleed_model::program::View;

pub use blocks::{Block, BlockQueue};
pub(super) use rectangles::take_share;
pub use rectangles::{Boundaries, Paired, Rectangle, RectangleQueue};

use super::apart::Apart;
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
        RowQueue { all: Pointer::new(self), rows, next: Apart::default() }
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
        (sources, RectangleQueue::new(all, out, rows, columns))
    }
}

/// `count` zeros, whose memory is not touched before it is used; `None` when it cannot be had.
pub fn zeros<T: bytemuck::Zeroable>(count: usize) -> Option<Box<[T]>> {
    let bytes = count.checked_mul(size_of::<T>())?;
    (bytes <= isize::MAX as usize).then(|| bytemuck::try_zeroed_slice_box(count).ok()).flatten()
}

/// The next `at_once` of `total` (the last time fewer), to the thread that asks first; none when all are gone.
fn take(next: &AtomicUsize, total: usize, at_once: usize) -> Option<Range<usize>> {
    let first = next.fetch_add(at_once, Relaxed);
    (first < total).then(|| first..total.min(first + at_once))
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
    next: Apart<AtomicUsize>,
}

impl<'a> RowQueue<'a> {
    /// All that can be had, `at_once` taken at a time.
    pub fn in_chunks(&self, at_once: usize) -> impl Iterator<Item = WholeRow<'a>> {
        let taken = std::iter::from_fn(move || take(&self.next, self.rows, at_once));
        taken.flatten().map(|row| WholeRow { all: self.all, row })
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
        // SAFETY: `at` has checked the bounds. No other thread has this row, and `&mut self` means that no
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

#[cfg(test)]
mod tests {
    use super::*;

    fn view(buffer: usize, offset: usize, width: usize) -> View {
        View { buffer, offset, width }
    }

    #[test]
    fn every_row_is_handed_out_once() {
        let mut all = Activations::new([4].into_iter(), 6).unwrap();
        let queue = all.split_rows(5);
        for mut row in queue.in_chunks(2) {
            let value = row.index() as f32 + 1.0;
            let ([a, _], out) = row.read_write([view(0, 2, 2); 2], view(0, 0, 2));
            out.copy_from_slice(&[a[0] + value, value]);
        }
        let sum: f32 = (0..6).map(|row| all.row(view(0, 1, 1), row)[0]).sum();
        assert_eq!(sum, 15.0);
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
