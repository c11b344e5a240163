//! The reference executor against llama.cpp on tiny random models.

mod embeddings;
mod tiny;
