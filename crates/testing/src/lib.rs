//! What tests share. Those of engines and servers need an executor whose logits betray any wrong page, position or
//! token, and a small vocabulary, instead of a model; those of whole models need golden data or checkpoint folders;
//! those of clients need a server. No crate that ships depends on it.

pub mod checkpoint;
pub mod golden;
mod listener;
pub mod lora;
mod mock;
mod server;
mod text;

pub use listener::{Ear, Heard};
pub use mock::{Log, Mock};
pub use server::{Behaviour, Fault, MockServer, Received};
pub use text::MockText;
