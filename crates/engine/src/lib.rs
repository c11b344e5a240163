//! Whose turn is it? Sequences, KV pages, sampling and generation.
//!
//! An [`Engine`] owns an executor and its KV pages. A [`Sequence`] is a run of tokens and the pages that
//! hold what was computed of them; [`Engine::generate`] answers a prompt with it, and a server can drive
//! many [`Generation`]s at once with [`Engine::step_many`].

mod ahead;
mod engine;
mod error;
mod generate;
mod generation;
mod numbers;
mod pages;
mod perplexity;
pub mod sampler;
mod sequence;
mod stop;
mod text;

pub use ahead::Pace;
pub use engine::{Engine, Part};
pub use error::{Error, Result};
pub use generate::{Event, Finish, Timings};
pub use generation::{FinishReason, Generation, GenerationSettings, Last, Next, Token};
pub use pages::PagePool;
pub use perplexity::{Perplexity, PerplexitySettings, perplexity};
pub use sampler::{Choice, LogProb, LogSoftmax, Sampler, SamplerSettings};
pub use sequence::Sequence;
pub use stop::{Passed, StopStrings};
pub use text::{Text, TokenizerText};
