//! Why a grammar is refused.

/// What is wrong with a grammar, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something in a JSON schema that is wrong or that cannot be kept.
    #[error("the JSON schema at #{pointer}: {keyword}: {what}")]
    Schema {
        /// Where, as a JSON pointer; empty for the whole schema.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// What is wrong with it.
        what: String,
    },
    /// More than a grammar may have.
    #[error("{what}: {found}, and at most {most} are allowed")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is, at least.
        found: usize,
        /// How much there may be.
        most: usize,
    },
    /// A regular expression, a grammar or a schema that cannot be compiled.
    #[error("the {kind} cannot be used: {what}")]
    Refused {
        /// What kind of grammar it is.
        kind: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A tool whose parameters are refused.
    #[error("the tool {name:?}: {error}")]
    Tool {
        /// Its name.
        name: String,
        /// What is wrong with its parameters.
        error: Box<Error>,
    },
    /// Calls that cannot be demanded of this model.
    #[error("calls of tools cannot be demanded: {0}")]
    Calls(String),
    /// A vocabulary that no grammar can be kept with.
    #[error("the model's vocabulary cannot be constrained: {0}")]
    Vocabulary(String),
}

/// The result of compiling a grammar.
pub type Result<T, E = Error> = std::result::Result<T, E>;
