//! Text to tokens and back, built from GGUF metadata; chat templates.
