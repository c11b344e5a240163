//! One file per command: its arguments (a clap struct whose comments are the help text) and `run`.

pub mod list;
pub mod pull;
