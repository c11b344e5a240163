//! Whole models against llama.cpp: tiny random ones of every family, and real ones as users have them.

mod altered;
mod bench;
mod commands;
mod data;
mod embeddings;
mod folders;
#[cfg(feature = "gpu")]
mod gpu;
mod hostile;
mod importance;
mod load;
mod lora;
mod real;
mod recurrent;
mod speculation;
mod tiny;
