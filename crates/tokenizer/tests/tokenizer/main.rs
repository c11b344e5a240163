//! The tests of this crate in one binary.

mod common;
mod corpus;
mod metadata;
mod templates;
mod vectors;
