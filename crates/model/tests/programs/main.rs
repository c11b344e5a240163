//! Programs: what is made of metadata and of rules, with tiny models and random ones.

mod fusion;
mod hyperparameters;
#[path = "../support/mod.rs"]
mod support;
