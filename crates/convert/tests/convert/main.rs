//! Checkpoint folders: against llama.cpp's converter and transformers, and damaged ones.

mod folders;
mod hostile;
mod support;
