//! Operands: ranges of columns of buffers, and what two of them have to do with each other.

/// A range of columns of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The index of the buffer in [`Program::buffers`](super::Program::buffers).
    pub buffer: usize,
    /// The first column.
    pub offset: usize,
    /// How many columns.
    pub width: usize,
}

impl View {
    /// A part of this view.
    pub fn part(self, offset: usize, width: usize) -> View {
        assert!(offset + width <= self.width);
        View { buffer: self.buffer, offset: self.offset + offset, width }
    }

    /// Whether this view holds all of another.
    pub fn covers(self, inner: View) -> bool {
        self.buffer == inner.buffer
            && self.offset <= inner.offset
            && inner.offset + inner.width <= self.offset + self.width
    }

    /// Whether this view shares a column with another.
    pub fn overlaps(self, other: View) -> bool {
        self.buffer == other.buffer
            && self.offset < other.offset + other.width
            && other.offset < self.offset + self.width
    }

    /// What is left of this view without the columns of another: nothing, one view or two.
    pub fn without(self, other: View) -> Vec<View> {
        if !self.overlaps(other) {
            return vec![self];
        }
        let (end, other_end) = (self.offset + self.width, other.offset + other.width);
        let left = View { width: other.offset.saturating_sub(self.offset), ..self };
        let right = View { offset: other_end, width: end.saturating_sub(other_end), ..self };
        [left, right].into_iter().filter(|view| view.width > 0).collect()
    }

    /// The columns from the first of two views of one buffer to the last.
    pub fn hull(self, other: View) -> View {
        let (offset, end) =
            (self.offset.min(other.offset), (self.offset + self.width).max(other.offset + other.width));
        View { offset, width: end - offset, ..self }
    }

    /// Whether `next` starts where this view ends.
    pub fn is_followed_by(self, next: View) -> bool {
        self.buffer == next.buffer && self.offset + self.width == next.offset
    }
}
