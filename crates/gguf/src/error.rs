//! Why a file cannot be read or written.

use std::path::PathBuf;

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file cannot be read or written. Each message is one line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file that was being read or written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not what it says it is, or is not to be written as asked.
    #[error("{file}: {what}")]
    Malformed {
        /// The file, as it was named by the caller.
        file: String,
        /// What is wrong, at which offset or in which key or tensor.
        what: String,
    },
    /// A metadata key that the caller needs is absent.
    #[error("metadata key {key} is missing")]
    MissingKey {
        /// The full name of the key.
        key: String,
    },
    /// A metadata key holds a value of the wrong type or range.
    #[error("metadata key {key}: expected {expected}, found {found}")]
    WrongType {
        /// The full name of the key.
        key: String,
        /// What the caller asked for.
        expected: &'static str,
        /// What the file holds.
        found: String,
    },
    /// A tensor that the caller needs is absent.
    #[error("{file}: tensor {name} is missing")]
    MissingTensor {
        /// The file, as it was named by the caller.
        file: String,
        /// The full name of the tensor.
        name: String,
    },
    /// A tensor, a format or a value that cannot be encoded or decoded as asked.
    #[error("{0}")]
    Unsupported(String),
}
