//! Downloading a file from the hub: redirects by hand (so that the token stays with the hub), resuming by
//! range, retries, and the checks that make the result trustworthy.
//!
//! A partial file is continued only when the server vouches that it is still the same version: by the
//! hub's own tag of the file, and by `If-Range` with the tag of whoever serves the bytes.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode};
use ureq::{Agent, Body};

use super::Outcome;
use super::address::{join, origin};
use super::cache::{self, Cache, Partial};
use super::hub::{Hub, Reference};
use crate::progress::Progress;

/// Waits between attempts that bring no new byte; after the last one the error is final.
const PAUSES_MS: [u64; 5] = [500, 1000, 2000, 4000, 8000];

/// The longest wait a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server that is silent for this long is taken for gone.
const SILENCE: Duration = Duration::from_secs(60);

const MAX_REDIRECTS: usize = 10;

/// A file of the hub that is in the cache now.
pub struct Fetched {
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// Whether it had to be downloaded.
    pub outcome: Outcome,
}

/// Brings a file into the cache unless it is there and the hub has no other version. The caller holds
/// the cache's lock.
pub fn pull(reference: &Reference, cache: &Cache, hub: &Hub) -> Result<Fetched> {
    let target = cache.file(reference.cache_path());
    let session = Session::new(reference, hub);
    let progress = Progress::new(reference.file(), 0).bytes();
    if let Ok(found) = std::fs::metadata(&target) {
        progress.set_total(found.len());
        progress.message("checking");
        let sha256 = cache::hash_file(&target, &progress)?;
        let kept = Fetched { bytes: found.len(), sha256, outcome: Outcome::Kept };
        let mut answer = session.request(Method::HEAD, None);
        if matches!(answer, Err(Failure::Passing { .. })) {
            thread::sleep(Duration::from_millis(PAUSES_MS[0]));
            answer = session.request(Method::HEAD, None);
        }
        match answer {
            Ok(answer) if answer.is(&kept) => return Ok(kept),
            Ok(_) => {
                progress.warning(format_args!("the hub has another version of {reference}: fetching it"))
            }
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Unreachable(error) | Failure::Passing { error, .. }) => {
                progress.warning(format_args!("keeping {} unchecked: {error:#}", target.display()));
                return Ok(kept);
            }
        }
    }

    let mut partial = Partial::open(&target)?;
    let known: Option<Version> = partial.note();
    let found = partial.found()?;
    progress.set_total(found);
    partial.keep(if known.is_some() { found } else { 0 }, &progress)?;
    let expected = session.download(&mut partial, known, &progress)?;
    let (bytes, sha256) = (partial.length(), partial.sha256());
    if let Some(expected) = expected.filter(|expected| *expected != sha256) {
        partial.discard();
        bail!("{reference}: what arrived has sha256 {sha256}, but the hub says {expected}; try again");
    }
    partial.finish()?;
    progress.finish();
    Ok(Fetched { bytes, sha256, outcome: Outcome::Downloaded })
}

/// Why an attempt brought no file.
enum Failure {
    /// Trying again would not help.
    Final(anyhow::Error),
    /// There is nobody at that address: worth a retry only if there was somebody before.
    Unreachable(anyhow::Error),
    /// It may work in a while, perhaps after the time that the server named.
    Passing { error: anyhow::Error, pause: Option<Duration> },
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Final(error)
    }
}

/// What identifies the version of a file, kept in the note beside a partial file.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Version {
    /// The hub's tag.
    hub: Option<String>,
    /// The strong tag or the date that the server of the bytes gives; what `If-Range` asks for.
    server: Option<String>,
}

/// A final answer, after all redirects.
struct Answer {
    response: Response<Body>,
    version: Version,
    sha256: Option<String>,
    bytes: Option<u64>,
}

impl Answer {
    /// Whether a file in the cache is what the hub has, as far as the hub says.
    fn is(&self, file: &Fetched) -> bool {
        self.bytes.is_none_or(|bytes| bytes == file.bytes)
            && self.sha256.as_ref().is_none_or(|sha256| *sha256 == file.sha256)
    }
}

/// What is needed to ask for one file.
struct Session<'a> {
    agent: Agent,
    reference: &'a Reference,
    hub: &'a Hub,
}

impl<'a> Session<'a> {
    fn new(reference: &'a Reference, hub: &'a Hub) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("gleed/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        Self { agent: config.build().new_agent(), reference, hub }
    }

    /// Fills `partial`, trying again as long as there is hope; gives the hash the hub promised, if any.
    fn download(
        &self,
        partial: &mut Partial,
        mut known: Option<Version>,
        progress: &Progress,
    ) -> Result<Option<String>> {
        // An attempt counts as progress only when it gets further than any before it.
        let mut furthest = partial.length();
        let mut answered = false;
        let mut fruitless = 0;
        loop {
            let failure = match self.attempt(partial, &mut known, progress) {
                Ok(sha256) => return Ok(sha256),
                Err(failure) => failure,
            };
            if partial.length() > furthest {
                (furthest, fruitless) = (partial.length(), 0);
            }
            let (error, pause) = match failure {
                Failure::Unreachable(error) if answered => (error, None),
                Failure::Final(error) | Failure::Unreachable(error) => return Err(error),
                Failure::Passing { error, pause } => (error, pause),
            };
            answered = true;
            let Some(&pause_ms) = PAUSES_MS.get(fruitless) else { return Err(error) };
            let pause = pause.unwrap_or(Duration::from_millis(pause_ms)).min(LONGEST_PAUSE);
            fruitless += 1;
            progress.warning(format_args!("{error:#}; trying again in {:.1} s", pause.as_secs_f64()));
            thread::sleep(pause);
        }
    }

    /// One request and as much of its body as comes.
    fn attempt(
        &self,
        partial: &mut Partial,
        known: &mut Option<Version>,
        progress: &Progress,
    ) -> Result<Option<String>, Failure> {
        let resume = match (&known, partial.length()) {
            (Some(version), 1..) => Some((partial.length(), version)),
            _ => None,
        };
        let answer = self.request(Method::GET, resume)?;
        let about = |what: &str| anyhow!("{}: {what}", self.reference);
        let passing = |error| Failure::Passing { error, pause: None };
        match answer.response.status() {
            StatusCode::PARTIAL_CONTENT => {
                let range = content_range(answer.response.headers());
                let same = known.as_ref() == Some(&answer.version);
                if !same || range.and_then(|(start, _)| start) != Some(partial.length()) {
                    *known = None;
                    return Err(passing(about("the server continued something else")));
                }
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                // Nothing is left to send when an earlier pull was stopped just before its last step.
                if answer.bytes == Some(partial.length()) {
                    return Ok(answer.sha256);
                }
                *known = None;
                return Err(passing(about("the server cannot continue")));
            }
            _ => {
                partial.keep(0, progress)?;
                *known = (answer.version != Version::default()).then(|| answer.version.clone());
                // Without a version there must be no note either: nobody could vouch for the rest.
                partial.set_note(known)?;
            }
        }
        if let Some(bytes) = answer.bytes {
            progress.set_total(bytes);
        }
        progress.set(partial.length());
        let mut body = answer.response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut chunk = vec![0; 1 << 17];
        loop {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    partial.write_all(&chunk[..count]).context("cannot write the download")?;
                    progress.set(partial.length());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(passing(anyhow!("{}: the connection broke: {error}", self.reference)));
                }
            }
        }
        match answer.bytes {
            Some(bytes) if partial.length() < bytes => Err(passing(about("the connection was cut"))),
            Some(bytes) if partial.length() > bytes => {
                *known = None;
                Err(passing(about("the server sent more than it said")))
            }
            _ => Ok(answer.sha256),
        }
    }

    /// Asks for the file, from `resume` on if the version is still that one, and follows redirects.
    fn request(&self, method: Method, resume: Option<(u64, &Version)>) -> Result<Answer, Failure> {
        let mut url = self.hub.url(self.reference);
        let mut resume = resume;
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
                let location =
                    location.with_context(|| format!("{}: a redirect to nowhere", self.reference))?;
                url = join(&url, location);
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
        Err(Failure::Final(anyhow!("{}: more than {MAX_REDIRECTS} redirects", self.reference)))
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
        let request = request.body(()).with_context(|| format!("{}: bad address {url}", self.reference))?;
        self.agent.run(request).map_err(|error| {
            let host = origin(url);
            let refused =
                matches!(&error, ureq::Error::Io(cause) if cause.kind() == ErrorKind::ConnectionRefused);
            let described = anyhow!("{}: cannot reach {host}: {error}", self.reference);
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

    /// What an answer that is not the file means.
    fn refusal(&self, response: &Response<Body>, at_hub: bool) -> Failure {
        let (status, reference) = (response.status(), self.reference);
        let repository = reference.repository();
        // Signed addresses of other servers run out: a new round through the hub brings a new one.
        let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        if passing || !at_hub && matches!(status.as_u16(), 400..=403) {
            let pause = text(response.headers(), "retry-after").and_then(|pause| pause.parse().ok());
            let error = anyhow!("{reference}: the server answered {status}");
            return Failure::Passing { error, pause: pause.map(Duration::from_secs) };
        }
        Failure::Final(match (status, &self.hub.token) {
            (StatusCode::UNAUTHORIZED, None) => {
                anyhow!(
                    "{repository} is private, gated or does not exist: set HF_TOKEN to a token that may read it"
                )
            }
            (StatusCode::UNAUTHORIZED, Some(_)) => anyhow!("{repository}: the hub does not accept HF_TOKEN"),
            (StatusCode::FORBIDDEN, _) => anyhow!(
                "{repository}: access is not granted: accept the model's terms with the account of HF_TOKEN first"
            ),
            (StatusCode::NOT_FOUND, _) => anyhow!(
                "the hub has no {} in {repository} at revision {} (or no such repository)",
                reference.file(),
                reference.revision()
            ),
            _ => anyhow!("{reference}: the server answered {status}"),
        })
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
fn content_range(headers: &HeaderMap) -> Option<(Option<u64>, Option<u64>)> {
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
