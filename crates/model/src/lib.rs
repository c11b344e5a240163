//! What does this model compute? Configurations, programs, fusion rules and the plain executor.
//!
//! [`Model::load`] reads a GGUF file's metadata and emits a [`Program`]: a flat list of ops over named
//! buffers. Nothing about architectures is known below this crate; nothing about hardware is known
//! above the executors that run the program.

pub mod adapters;
pub mod archs;
pub mod arithmetic;
pub mod batch;
mod build;
pub mod chain;
pub mod choice;
pub mod compare;
mod config;
mod error;
pub mod executor;
pub mod fuse;
pub mod groups;
mod joined;
pub mod kernels;
mod keys;
pub mod kv;
mod model;
pub mod numbers;
pub mod operands;
pub mod program;
pub mod recurrence;
pub mod reference;
pub mod rope;
pub mod routing;
pub mod shapes;
pub mod slots;
mod split;
pub mod verify;

pub use arithmetic::Arithmetic;
pub use batch::{Batch, Row};
pub use config::Config;
pub use error::{Error, Result};
pub use executor::{Executor, StepError};
pub use joined::Joined;
pub use kv::KvType;
pub use model::Model;
pub use program::Program;
pub use reference::Reference;
pub use split::{Halves, cuts, split};
