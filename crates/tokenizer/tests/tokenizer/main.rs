//! The tests of this crate in one binary.

mod answers;
mod common;
mod corpus;
mod guards;
mod metadata;
mod rwkv;
mod spaced_bpe;
mod templates;
mod unigram;
mod vectors;
