//! Memory that several threads write without slowing each other down.

use std::ops::Deref;

/// A value that shares no cache line with another, so that those who read its neighbours do not wait whenever it is
/// written. Twice a line, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
