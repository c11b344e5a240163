//! Whose turn is it? Sequences, KV pages, sampling and generation.
