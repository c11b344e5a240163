//! The API of OpenAI: what most clients speak.

pub mod chat;
mod chunks;
pub mod completions;
pub mod conversation;
pub mod embeddings;
pub mod logprobs;
pub mod messages;
pub mod models;
pub mod sampling;
mod stream;
mod text_stream;
pub mod usage;

pub use conversation::conversation;

/// What every answer says of the server that gave it.
const FINGERPRINT: &str = concat!("gleed-", env!("CARGO_PKG_VERSION"));
