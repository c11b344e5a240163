//! Why a server could not be measured, and why a single request brought no answer.

use std::fmt::{self, Display};
use std::path::PathBuf;

/// The result of this module's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a server could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none.
    #[error("{address}: {what}; give the address of a server such as http://127.0.0.1:8080")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A server that does not answer a plain request.
    #[error("{address}: {failure} (when asked for {what})")]
    Server {
        /// The server.
        address: String,
        /// What it was asked for.
        what: &'static str,
        /// What came instead.
        failure: Failure,
    },
    /// A server that supports nothing of what was to be compared.
    #[error("{address}: no kind of request was answered; the last one said: {last}")]
    NothingToCompare {
        /// The server.
        address: String,
        /// Why the last kind was left out.
        last: String,
    },
    /// A number of tokens, or a range, that is none.
    #[error("{given}: {what}; give a number of tokens such as 128, or a range such as 64-256")]
    Lengths {
        /// What was given.
        given: String,
        /// What is wrong with it.
        what: String,
    },
    /// A way of arriving that makes no sense.
    #[error("{0}")]
    Arrivals(String),
    /// A trace that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Where it lies.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line of a trace that says nothing that can be sent.
    #[error("{}: line {line}: {what}", path.display())]
    Trace {
        /// Where the trace lies.
        path: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// Why a request brought no answer, or none that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No server took the connection.
    Connection(String),
    /// Nothing, or not everything, came in time.
    Timeout,
    /// A status other than 200, and what the server said to it.
    Status {
        /// The status.
        code: u16,
        /// The message of the error object, or the beginning of the body.
        message: String,
        /// Seconds after which the server wants to be asked again.
        retry_after: Option<u64>,
    },
    /// The answer ended, or the connection did, before it was whole.
    CutOff(String),
    /// An answer that is not what the API says.
    NotUnderstood(String),
    /// An error that the server sent inside the stream.
    InStream(String),
    /// There were too many open requests already, or no thread for one more.
    NotSent,
}

impl Failure {
    /// A few words that failures of one kind have in common.
    pub fn kind(&self) -> String {
        match self {
            Failure::Connection(_) => "no connection".to_string(),
            Failure::Timeout => "timeout".to_string(),
            Failure::Status { code, .. } => format!("status {code}"),
            Failure::CutOff(_) => "cut off".to_string(),
            Failure::NotUnderstood(_) => "not understood".to_string(),
            Failure::InStream(_) => "error in the stream".to_string(),
            Failure::NotSent => "not sent".to_string(),
        }
    }

    /// Whether the request itself was refused, so that it would be refused again.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Failure::Status { code, .. } if (400..500).contains(code) && *code != 429 || *code == 501)
    }

    /// Whether the server only has no room now.
    pub fn is_passing(&self) -> bool {
        matches!(self, Failure::Status { code: 429 | 503, .. } | Failure::Connection(_))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Failure::Timeout | Failure::NotSent => "",
            Failure::Status { message: said, .. }
            | Failure::Connection(said)
            | Failure::CutOff(said)
            | Failure::NotUnderstood(said)
            | Failure::InStream(said) => said,
        };
        let kind = self.kind();
        if said.is_empty() { f.write_str(&kind) } else { write!(f, "{kind}: {said}") }
    }
}
