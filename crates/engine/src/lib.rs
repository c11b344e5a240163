//! Whose turn is it? Sequences, KV pages, sampling and generation.
//!
//! An [`Engine`] owns an executor, its KV pages and state slots. A [`Sequence`] is a run of tokens and the pages and
//! slots that hold what was computed of them; a [`Batcher`] answers prompts with them, one ([`Batcher::answer`]) or many
//! at once. [`Engine::embed`] turns texts into vectors, with a model that was made for it.
//!
//! Open a file, get an engine, ask:
//!
//! ```
//! use std::sync::Arc;
//!
//! use gleed_cpu::{Cpu, Options};
//! use gleed_engine::{BatchSettings, Batcher, Engine, GenerationSettings, SamplerSettings};
//! use gleed_gguf::Gguf;
//! use gleed_tokenizer::Tokenizer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # std::env::set_current_dir("../..")?;
//! let settings = GenerationSettings {
//!     max_tokens: Some(9),
//!     sampler: SamplerSettings::greedy(),
//!     ..Default::default()
//! };
//! let file = Arc::new(Gguf::open("models/stories15M-q8_0.gguf".as_ref())?);
//! let tokenizer = Arc::new(Tokenizer::from_metadata(file.metadata())?);
//! let engine = Engine::new(Box::new(Cpu::open(&file, Options::default())?));
//! let mut batcher = Batcher::new(engine, &BatchSettings::default());
//! let story = batcher.ask(&tokenizer, "Once upon a time", settings)?;
//! # assert_eq!(story, ", there was a little girl named Lily");
//! # Ok(())
//! # }
//! ```

mod adapters;
mod batcher;
mod constraint;
mod embed;
mod engine;
mod error;
mod generate;
mod generation;
mod held;
mod importance;
mod numbers;
mod pages;
mod perplexity;
mod prefix;
pub mod sampler;
mod scheduler;
mod sequence;
mod slots;
mod speculation;
mod states;
mod stop;
mod text;

pub use adapters::Adapters;
pub use batcher::{
    BatchSettings, Batcher, EmbedReply, EngineHandle, Listener, Pace, Refusal, Request, Status, Update,
};
pub use constraint::{Constraint, TokenMask};
pub use embed::normalize;
pub use engine::{Engine, Turn};
pub use error::{Error, Result};
pub use generate::{Event, Finish, Guesses, Timings};
pub use generation::{FinishReason, Generation, GenerationSettings, Last, Next, Token};
pub use importance::{ImportanceSettings, importance};
pub use pages::PagePool;
pub use perplexity::{Perplexity, PerplexitySettings, perplexity};
pub use sampler::{Choice, LogProb, LogSoftmax, Sampler, SamplerSettings};
pub use scheduler::{Begun, Budget, Need, Plan, RequestId, Room, Scheduler};
pub use sequence::Sequence;
pub use slots::SlotPool;
pub use speculation::{Draft, Speculation};
pub use stop::{Passed, StopStrings};
pub use text::{Text, TokenizerText};

pub use gleed_model::program::AdapterInfo;
