//! What the hub says about a repository: its files, their sizes, and the architecture of its model.

use serde::Deserialize;
use ureq::http::Method;

use crate::endpoint::Hub;
use crate::error::Result;
use crate::reference::Reference;
use crate::repository::Repository;
use crate::request::{Failure, Session};

/// A listing longer than this is none.
const LIMIT: u64 = 32 << 20;

/// What the hub says about a repository, as far as it matters here; all else in its answer is ignored.
#[derive(Debug, Deserialize)]
pub struct Listing {
    #[serde(default)]
    siblings: Vec<Sibling>,
    gguf: Option<Summary>,
}

/// A file of the repository.
#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
}

/// What the hub read from the repository's model files.
#[derive(Debug, Deserialize)]
struct Summary {
    architecture: Option<String>,
}

impl Listing {
    /// Asks the hub, once; messages call what is asked for `name`.
    pub fn ask(hub: &Hub, repository: &Repository, name: String) -> Result<Self, Failure> {
        let session = Session::new(hub, repository, name);
        let answer = session.request(Method::GET, hub.listing_url(repository), None)?;
        let body = answer.response.into_body().into_with_config().limit(LIMIT).read_to_vec();
        let body = body.map_err(|error| Failure::Passing {
            error: session.failed(format!("the connection broke: {error}")),
            pause: None,
        })?;
        let listing = serde_json::from_slice(&body);
        let odd = |error| session.failed(format!("the hub's list of files cannot be read: {error}"));
        listing.map_err(odd).map_err(Failure::Final)
    }

    /// The paths of all files.
    pub fn files(&self) -> impl Iterator<Item = &str> + Clone {
        self.siblings.iter().map(|file| file.rfilename.as_str())
    }

    /// The architecture of the repository's model, if it is a word: it may be shown on a terminal.
    pub fn architecture(&self) -> Option<&str> {
        let architecture = self.gguf.as_ref()?.architecture.as_deref()?;
        architecture.bytes().all(|byte| byte.is_ascii_graphic()).then_some(architecture)
    }

    /// Bytes of all parts of a model; none unless all are known.
    pub fn bytes(&self, model: &Reference) -> Option<u64> {
        let bytes = |part: Reference| {
            self.siblings.iter().find(|file| file.rfilename == part.file()).and_then(|file| file.size)
        };
        model.parts().into_iter().try_fold(0u64, |sum, part| sum.checked_add(bytes(part)?))
    }
}
