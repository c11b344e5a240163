//! The engine on the mock executor, whose logits betray any wrong page, position or token, and on tiny models.

mod adapters;
mod alone;
mod batcher;
mod company;
mod generation;
mod halves;
mod numbers;
mod perplexity;
mod recurrent;
mod states;
#[path = "../../../model/tests/support/mod.rs"]
mod support;
mod windows;
