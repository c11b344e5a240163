//! Why a tokenizer or a chat template cannot be built or used.

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tokenizer or a chat template cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A metadata key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] gleed_gguf::Error),
    /// `tokenizer.ggml.model` names a kind of tokenizer that this crate does not have.
    #[error("tokenizer.ggml.model: unknown tokenizer '{found}'; known are {known}")]
    UnknownModel {
        /// The name in the file.
        found: String,
        /// The names that are known, in one line.
        known: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokeniser that this crate does not have.
    #[error("tokenizer.ggml.pre: unknown pre-tokeniser '{found}'; known are {known}")]
    UnknownPretokenizer {
        /// The name in the file.
        found: String,
        /// The names that are known, in one line.
        known: String,
    },
    /// The vocabulary contradicts itself.
    #[error("metadata key {key}: {what}")]
    Vocabulary {
        /// The key that holds the contradiction.
        key: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The chat template does not parse, or failed while it ran.
    #[error("chat template: {0}")]
    Template(String),
}
