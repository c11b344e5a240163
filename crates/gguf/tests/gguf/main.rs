//! The tests of this crate in one binary, but for those that count what is allocated.

mod assembling;
mod bad_files;
mod container;
mod formats;
mod formats_encode;
mod importance;
mod mix;
mod writing;
