//! The API of OpenAI: what most clients speak.

pub mod chat;
mod conversation;
mod logprobs;
mod messages;
pub mod models;
mod sampling;
mod stream;
mod usage;
