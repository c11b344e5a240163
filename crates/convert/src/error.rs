//! Why a folder cannot be read as a model.

use std::path::PathBuf;

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a folder cannot be read as a model. Each message is one line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file that was being read.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file of the folder is not what it should be, or asks for what cannot be done.
    #[error("{file}: {what}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong, in which key or tensor.
        what: String,
    },
    /// The model that the parts make is none.
    #[error(transparent)]
    Gguf(#[from] gleed_gguf::Error),
}

/// Something wrong with a file.
pub(crate) fn malformed(file: &str, what: impl Into<String>) -> Error {
    Error::Malformed { file: file.to_string(), what: what.into() }
}
