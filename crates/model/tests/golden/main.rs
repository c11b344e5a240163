//! The reference executor against llama.cpp and Hugging Face transformers, on tiny random models.

mod embeddings;
mod tiny;
mod transformers;
mod transformers_encoders;
