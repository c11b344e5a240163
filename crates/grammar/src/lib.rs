//! What may an answer say? JSON schemas, regular expressions and grammars as constraints of the engine.
//!
//! A [`Vocabulary`] is a model's tokens as a tree, built once; [`Vocabulary::constraint`] compiles a [`Grammar`] for
//! it, in bounded time and memory. What cannot be promised is refused with its name and place, never ignored: an
//! answer that came to its end is valid.
//!
//! ```
//! use gleed_engine::TokenMask;
//! use gleed_gguf::Gguf;
//! use gleed_grammar::{Grammar, Vocabulary};
//! use gleed_tokenizer::Tokenizer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # std::env::set_current_dir("../..")?;
//! let file = Gguf::open("models/stories15M-q8_0.gguf".as_ref())?;
//! let tokenizer = Tokenizer::from_metadata(file.metadata())?;
//! let vocabulary = Vocabulary::new(&tokenizer)?;
//! let mut constraint = vocabulary.constraint(&Grammar::Regex("yes|no".to_string()))?;
//! let mut mask = TokenMask::none(tokenizer.vocab_size());
//! constraint.allow(&mut mask)?;
//! assert!(mask.allows(tokenizer.token_id("yes").ok_or("no such token")?));
//! assert!(!mask.allows(tokenizer.token_id("may").ok_or("no such token")?));
//! # Ok(())
//! # }
//! ```

mod compile;
mod constraint;
mod error;
mod gbnf;
mod lark;
mod limits;
mod schema;
mod tools;
mod vocabulary;

pub use compile::Grammar;
pub use error::{Error, Result};
pub use tools::{Tool, ToolChoice, ToolGrammar};
pub use vocabulary::Vocabulary;
