//! The API of OpenAI: what most clients speak.

pub mod chat;
pub mod completions;
mod conversation;
pub mod embeddings;
mod logprobs;
mod messages;
pub mod models;
mod sampling;
mod stream;
mod text_stream;
mod usage;

pub use conversation::conversation;

/// What every answer says of the server that gave it.
const FINGERPRINT: &str = concat!("gleed-", env!("CARGO_PKG_VERSION"));
