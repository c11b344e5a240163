//! What tests of engines and servers need instead of a model: an executor whose logits betray any wrong page, position
//! or token, and a small vocabulary. No crate that ships depends on it.

mod mock;
mod text;

pub use mock::{Log, Mock};
pub use text::MockText;
