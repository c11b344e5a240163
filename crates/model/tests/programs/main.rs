//! Programs: what rules make of them, with tiny models and random ones.

mod fusion;
#[path = "../support/mod.rs"]
mod support;
