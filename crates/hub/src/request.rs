//! Asking the hub: redirects by hand (so that the token stays with the hub), and what refusals mean.

use std::io::ErrorKind;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode};
use ureq::{Agent, Body};

use crate::address::{join, origin};
use crate::endpoint::Hub;
use crate::error::{Error, Refusal, Result};
use crate::repository::Repository;

/// A server that is silent for this long is taken for gone.
const SILENCE: Duration = Duration::from_secs(60);

const MAX_REDIRECTS: usize = 10;

/// Why an attempt brought nothing.
pub enum Failure {
    /// Trying again would not help.
    Final(Error),
    /// No server is at that address: worth a retry only if one was there before.
    Unreachable(Error),
    /// It may work in a while, perhaps after the time that the server named.
    Passing { error: Error, pause: Option<Duration> },
}

impl Failure {
    /// Why, once nothing more is tried.
    pub fn into_error(self) -> Error {
        match self {
            Self::Final(error) | Self::Unreachable(error) | Self::Passing { error, .. } => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Final(error)
    }
}

/// What identifies the version of a file, kept in the note beside a partial file.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The hub's tag.
    pub hub: Option<String>,
    /// The strong tag or the date that the server of the bytes gives; what `If-Range` asks for.
    pub server: Option<String>,
}

/// A final answer, after all redirects.
pub struct Answer {
    /// What came; its body is not read yet.
    pub response: Response<Body>,
    /// What identifies what is served.
    pub version: Version,
    /// Its hash, if the hub says it.
    pub sha256: Option<String>,
    /// Its size, if a server says it.
    pub bytes: Option<u64>,
}

/// What is needed to ask for things of one repository.
pub struct Session<'a> {
    agent: Agent,
    hub: &'a Hub,
    repository: &'a Repository,
    /// What is asked for, for messages.
    name: String,
}

impl<'a> Session<'a> {
    /// A session for something of this repository that messages call `name`.
    pub fn new(hub: &'a Hub, repository: &'a Repository, name: String) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("gleed/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        Self { agent: config.build().new_agent(), hub, repository, name }
    }

    /// Asks for what lies at `url`, from `resume` on if the version is still that one, and follows redirects.
    pub fn request(
        &self,
        method: Method,
        mut url: String,
        mut resume: Option<(u64, &Version)>,
    ) -> Result<Answer, Failure> {
        let (mut hub_tag, mut hub_bytes) = (None, None);
        for _ in 0..=MAX_REDIRECTS {
            let at_hub = origin(&url) == origin(&self.hub.endpoint);
            let response = self.send(&method, &url, resume)?;
            let headers = response.headers();
            // Only the hub's word counts: other servers' tags may be 64 digits of something else.
            if at_hub {
                hub_bytes = text(headers, "x-linked-size").and_then(|size| size.parse().ok()).or(hub_bytes);
                if let Some(tag) = text(headers, "x-linked-etag").or(text(headers, "etag")).map(bare_tag) {
                    resume = resume.filter(|(_, version)| version.hub.as_ref() == Some(&tag));
                    hub_tag = Some(tag);
                }
            }
            let status = response.status();
            if status.is_redirection() {
                let location = text(headers, "location");
                url = join(&url, location.ok_or_else(|| self.failed("a redirect to nowhere"))?);
                continue;
            }
            let range = content_range(headers);
            if !(status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE && resume.is_some()) {
                return Err(self.refusal(&response, at_hub));
            }
            let length = text(headers, "content-length").and_then(|length| length.parse().ok());
            let served = match status {
                StatusCode::OK => length,
                _ => range.and_then(|(_, total)| total),
            };
            let strong = text(headers, "etag").filter(|tag| !tag.starts_with("W/"));
            let server = strong.or(text(headers, "last-modified")).map(str::to_owned);
            let sha256 = hub_tag.clone().filter(|tag| is_sha256(tag));
            let version = Version { hub: hub_tag, server };
            return Ok(Answer { version, sha256, bytes: hub_bytes.or(served), response });
        }
        Err(Failure::Final(self.failed(format!("more than {MAX_REDIRECTS} redirects"))))
    }

    /// Sends one request; the token goes to the hub alone.
    fn send(
        &self,
        method: &Method,
        url: &str,
        resume: Option<(u64, &Version)>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(token) = self.hub.token.as_ref().filter(|_| origin(url) == origin(&self.hub.endpoint)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some((start, version)) = resume {
            request = request.header("range", format!("bytes={start}-"));
            if let Some(tag) = &version.server {
                request = request.header("if-range", tag);
            }
        }
        let request = request.body(());
        let request = request.map_err(|error| self.failed(format!("bad address {url}: {error}")))?;
        self.agent.run(request).map_err(|error| {
            let host = origin(url);
            let refused =
                matches!(&error, ureq::Error::Io(cause) if cause.kind() == ErrorKind::ConnectionRefused);
            let described = Error::Unreachable { name: self.name.clone(), host, reason: error.to_string() };
            match error {
                ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Failure::Unreachable(described),
                _ if refused => Failure::Unreachable(described),
                ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => {
                    Failure::Passing { error: described, pause: None }
                }
                _ => Failure::Final(described),
            }
        })
    }

    /// What an answer that is not what was asked for means.
    fn refusal(&self, response: &Response<Body>, at_hub: bool) -> Failure {
        let status = response.status();
        // Signed addresses of other servers run out: a new round through the hub brings a new one.
        let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        if passing || !at_hub && matches!(status.as_u16(), 400..=403) {
            let pause = text(response.headers(), "retry-after").and_then(|pause| pause.parse().ok());
            let error = self.failed(format!("the server answered {status}"));
            return Failure::Passing { error, pause: pause.map(Duration::from_secs) };
        }
        let refused = |refusal| Error::Refused { repository: self.repository.to_string(), refusal };
        Failure::Final(match (status, &self.hub.token) {
            (StatusCode::UNAUTHORIZED, None) if self.hub.token_withheld => refused(Refusal::TokenWithheld),
            (StatusCode::UNAUTHORIZED, None) => refused(Refusal::TokenNeeded),
            (StatusCode::UNAUTHORIZED, Some(_)) => refused(Refusal::TokenUnknown),
            (StatusCode::FORBIDDEN, _) => refused(Refusal::Forbidden),
            (StatusCode::NOT_FOUND, _) => Error::NotOnHub {
                name: self.name.clone(),
                repository: self.repository.to_string(),
                revision: self.repository.revision().to_owned(),
            },
            _ => self.failed(format!("the server answered {status}")),
        })
    }

    /// The conversation went wrong.
    pub fn failed(&self, what: impl Into<String>) -> Error {
        Error::Transfer { name: self.name.clone(), what: what.into() }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// An entity tag without the marks around it.
fn bare_tag(tag: &str) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

fn is_sha256(tag: &str) -> bool {
    tag.len() == 64 && tag.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The start and the total in `bytes 100-199/200` or `bytes */200`; either may be missing.
pub fn content_range(headers: &HeaderMap) -> Option<(Option<u64>, Option<u64>)> {
    let (range, total) = text(headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    let start = range.split_once('-').and_then(|(start, _)| start.parse().ok());
    Some((start, total.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let range = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", value.parse().unwrap());
            content_range(&headers)
        };
        assert_eq!(range("bytes 100-199/200"), Some((Some(100), Some(200))));
        assert_eq!(range("bytes 100-199/*"), Some((Some(100), None)));
        assert_eq!(range("bytes */200"), Some((None, Some(200))));
        assert_eq!(range("pages 1-2/3"), None);
    }
}
