//! Why a model cannot be built.

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a model cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file lacks something or says something else than it should.
    #[error(transparent)]
    File(#[from] gleed_gguf::Error),
    /// An architecture that is not written yet.
    #[error("architecture {name} is not known; known: {known}")]
    UnknownArchitecture {
        /// What the file says.
        name: String,
        /// What this build can run.
        known: String,
    },
    /// A hyper-parameter that nothing reads although it changes what the model computes.
    #[error(
        "metadata key {} is {value}: it changes what the model computes, and this build does not know how",
        key.escape_debug()
    )]
    UnknownKey {
        /// The full key.
        key: String,
        /// Its value, in short.
        value: String,
    },
    /// A tensor that the architecture needs is absent.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// The full name of the tensor.
        name: String,
    },
    /// A tensor of the wrong shape.
    #[error("tensor {name}: expected shape {expected}, has {found}")]
    Shape {
        /// The tensor.
        name: String,
        /// The shape that the configuration implies, fastest dimension first.
        expected: String,
        /// The shape in the file.
        found: String,
    },
    /// An adapter that cannot be used with a model.
    #[error("{file}: {what}")]
    Adapter {
        /// The adapter's file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A configuration that makes no sense or is not supported.
    #[error("{0}")]
    Invalid(String),
}
