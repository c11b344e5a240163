//! One file per command: its arguments (a clap struct whose comments are the help text) and `run`.

pub mod bench;
pub mod chat;
pub mod completions;
pub mod convert;
#[cfg(feature = "gpu")]
pub mod devices;
pub mod embed;
pub mod imatrix;
pub mod inspect;
pub mod list;
pub mod perplexity;
pub mod pull;
pub mod quantize;
pub mod rm;
pub mod run;
pub mod serve;
pub mod synth;
pub mod tokenize;
pub mod validate;
