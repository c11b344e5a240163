//! Downloading a file from the hub: resuming by range, retries, and the checks that make the result
//! trustworthy.
//!
//! A partial file is continued only when the server vouches that it is still the same version: by the
//! hub's own tag of the file, and by `If-Range` with the tag of the server that sends the bytes.

use std::io::{ErrorKind, Read};
use std::thread;
use std::time::Duration;

use ureq::http::{Method, StatusCode};

use crate::cache::Cache;
use crate::endpoint::Hub;
use crate::error::{Error, Result};
use crate::event::{Event, Outcome, Step, Warning, Watch};
use crate::partial::{Partial, hash_file};
use crate::reference::Reference;
use crate::request::{Answer, Failure, Session, Version, content_range};

/// Waits between attempts that bring no new byte; after the last one the error is final.
const PAUSES_MS: [u64; 5] = [500, 1000, 2000, 4000, 8000];

/// The longest wait a server may ask for.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A file of the hub that is in the cache now.
pub struct Fetched {
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// Whether it had to be downloaded.
    pub outcome: Outcome,
}

impl Fetched {
    /// Whether it is what the hub has, as far as the hub says.
    fn is(&self, answer: &Answer) -> bool {
        answer.bytes.is_none_or(|bytes| bytes == self.bytes)
            && answer.sha256.as_ref().is_none_or(|sha256| *sha256 == self.sha256)
    }
}

/// Brings a file into the cache unless it is there and the hub has no other version. The caller holds
/// the cache's lock.
pub fn pull(reference: &Reference, cache: &Cache, hub: &Hub, watch: Watch) -> Result<Fetched> {
    let target = cache.file(reference.cache_path());
    let session = Session::new(hub, reference.repository(), reference.to_string());
    let download = Download { session, url: hub.url(reference), watch };
    watch(Event::File(reference.file()));
    if let Ok(found) = std::fs::metadata(&target) {
        watch(Event::Step(Step::Checking));
        let sha256 = hash_file(&target, watch)?;
        let kept = Fetched { bytes: found.len(), sha256, outcome: Outcome::Kept };
        let mut answer = download.request(Method::HEAD, None);
        if matches!(answer, Err(Failure::Passing { .. })) {
            thread::sleep(Duration::from_millis(PAUSES_MS[0]));
            answer = download.request(Method::HEAD, None);
        }
        match answer {
            Ok(answer) if kept.is(&answer) => return Ok(kept),
            Ok(_) => watch(Event::Warning(Warning::OtherVersion(reference))),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Unreachable(error) | Failure::Passing { error, .. }) => {
                watch(Event::Warning(Warning::Unchecked { path: target, error: &error }));
                return Ok(kept);
            }
        }
    }

    let mut partial = Partial::open(&target)?;
    let known: Option<Version> = partial.note();
    let found = partial.found()?;
    watch(Event::Step(Step::Checking));
    partial.keep(if known.is_some() { found } else { 0 }, watch)?;
    watch(Event::Step(Step::Downloading));
    let expected = download.fill(&mut partial, known)?;
    let (bytes, sha256) = (partial.length(), partial.sha256());
    if let Some(expected) = expected.filter(|expected| *expected != sha256) {
        partial.discard();
        return Err(Error::Hash { name: reference.to_string(), found: sha256, expected });
    }
    partial.finish()?;
    Ok(Fetched { bytes, sha256, outcome: Outcome::Downloaded })
}

/// A download that may take several requests.
struct Download<'a> {
    session: Session<'a>,
    url: String,
    watch: Watch<'a>,
}

impl Download<'_> {
    fn request(&self, method: Method, resume: Option<(u64, &Version)>) -> Result<Answer, Failure> {
        self.session.request(method, self.url.clone(), resume)
    }

    /// Fills `partial`, trying again as long as there is hope; gives the hash the hub promised, if any.
    fn fill(&self, partial: &mut Partial, mut known: Option<Version>) -> Result<Option<String>> {
        // An attempt counts as progress only when it gets further than any before it.
        let mut furthest = partial.length();
        let mut answered = false;
        let mut fruitless = 0;
        loop {
            let failure = match self.attempt(partial, &mut known) {
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
            (self.watch)(Event::Warning(Warning::Retrying { error: &error, pause }));
            thread::sleep(pause);
        }
    }

    /// One request and as much of its body as comes.
    fn attempt(&self, partial: &mut Partial, known: &mut Option<Version>) -> Result<Option<String>, Failure> {
        let resume = match (&known, partial.length()) {
            (Some(version), 1..) => Some((partial.length(), version)),
            _ => None,
        };
        let answer = self.request(Method::GET, resume)?;
        let passing = |error| Failure::Passing { error, pause: None };
        match answer.response.status() {
            StatusCode::PARTIAL_CONTENT => {
                let range = content_range(answer.response.headers());
                let same = known.as_ref() == Some(&answer.version);
                if !same || range.and_then(|(start, _)| start) != Some(partial.length()) {
                    *known = None;
                    return Err(passing(self.session.failed("the server continued something else")));
                }
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                // Nothing is left to send when an earlier pull was stopped just before its last step.
                if answer.bytes == Some(partial.length()) {
                    return Ok(answer.sha256);
                }
                *known = None;
                return Err(passing(self.session.failed("the server cannot continue")));
            }
            _ => {
                partial.keep(0, self.watch)?;
                *known = (answer.version != Version::default()).then(|| answer.version.clone());
                // Without a version there must be no note either: nothing could vouch for the rest.
                partial.set_note(known)?;
            }
        }
        let report = |done| (self.watch)(Event::Progress { done, total: answer.bytes });
        report(partial.length());
        let mut body = answer.response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut chunk = vec![0; 1 << 17];
        loop {
            match body.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    partial.append(&chunk[..count])?;
                    report(partial.length());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(passing(self.session.failed(format!("the connection broke: {error}"))));
                }
            }
        }
        match answer.bytes {
            Some(bytes) if partial.length() < bytes => {
                Err(passing(self.session.failed("the connection was cut")))
            }
            Some(bytes) if partial.length() > bytes => {
                *known = None;
                Err(passing(self.session.failed("the server sent more than it said")))
            }
            _ => Ok(answer.sha256),
        }
    }
}
