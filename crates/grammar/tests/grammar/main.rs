//! Constraints with real vocabularies: random walks through their masks, texts that must pass and texts that must not.

mod hostile;
mod json;
mod suite;
mod text;
mod tools;
mod walk;
