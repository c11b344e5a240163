//! The tests of this crate in one binary.

mod answers;
mod common;
mod corpus;
mod guards;
mod metadata;
mod templates;
mod unigram;
mod vectors;
