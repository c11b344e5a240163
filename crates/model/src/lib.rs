//! What does this model compute? Configurations, programs, fusion rules and the plain executor.
//!
//! [`Model::load`] reads a GGUF file's metadata and emits a [`Program`]: a flat list of ops over named
//! buffers. Nothing about architectures is known below this crate; nothing about hardware is known
//! above the executors that run the program.

pub mod arithmetic;
mod error;
pub mod executor;
pub mod program;
pub mod rope;

pub use arithmetic::Arithmetic;
pub use error::{Error, Result};
pub use executor::{Batch, Executor, Row, StepError};
pub use program::Program;
