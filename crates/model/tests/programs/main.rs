//! Programs: what is made of metadata, of rules and of threads, with tiny models and random ones.

mod adapters;
mod documented;
mod experts;
mod fusion;
mod hyperparameters;
mod joined;
#[path = "../support/mod.rs"]
mod support;
mod threads;
