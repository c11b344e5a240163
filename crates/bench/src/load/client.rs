//! Asking a server over HTTP: whole answers, and streams whose events are handed on as they come. Every request
//! has a connection of its own, so that none waits for another and none meets one that the server has just closed.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

use super::error::{Error, Failure, Result};
use super::events::Events;

/// What came of asking.
type Answered<T> = std::result::Result<T, Failure>;

/// Takes in an event's data and the moment at which it was read.
type OnEvent<'a> = dyn FnMut(Instant, &str) -> Answered<ControlFlow<()>> + 'a;

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: u64 = 64 << 20;

/// A server that speaks OpenAI's API.
#[derive(Clone)]
pub struct Server {
    /// The address without a path of the API and without a slash at its end.
    base: String,
    key: Option<String>,
    agent: Agent,
}

impl Server {
    /// The server at an address, which may end in `/v1`. No request may take longer than `timeout`.
    pub fn new(address: &str, key: Option<&str>, timeout: Duration) -> Result<Server> {
        let wrong = |what| Error::Address { address: address.to_string(), what };
        let with_scheme = match address.contains("://") {
            true => address.to_string(),
            false => format!("http://{address}"),
        };
        let base = with_scheme.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/');
        let parsed: ureq::http::Uri = base.parse().map_err(|_| wrong("this is no address"))?;
        if !matches!(parsed.scheme_str(), Some("http" | "https")) {
            return Err(wrong("only http and https are spoken"));
        }
        if parsed.query().is_some() {
            return Err(wrong("there is a query in it"));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .user_agent(concat!("gleed/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(timeout))
            .build()
            .new_agent();
        Ok(Server { base: base.to_string(), key: key.map(str::to_string), agent })
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.base
    }

    /// What lies at a path, as JSON.
    pub fn get(&self, path: &str) -> Answered<Value> {
        whole(self.send("GET", path, "")?)
    }

    /// The answer to a JSON body, as JSON.
    pub fn post(&self, path: &str, body: &str) -> Answered<Value> {
        whole(self.send("POST", path, body)?)
    }

    /// Hands on the data of every event of the answer with the moment when its last byte was read, until the
    /// caller breaks off, which closes the connection. Whether the caller did is returned.
    pub fn stream(&self, path: &str, body: &str, each: &mut OnEvent<'_>) -> Answered<ControlFlow<()>> {
        let response = self.send("POST", path, body)?;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let kind = kind.unwrap_or("of no kind");
            return Err(Failure::NotUnderstood(format!("the answer is {kind}, not a stream of events")));
        }
        let mut reader = response.into_body().into_reader();
        let mut events = Events::default();
        let mut bytes = [0; 16 << 10];
        let mut flow = ControlFlow::Continue(());
        loop {
            let count = reader.read(&mut bytes).map_err(|error| broken(&error))?;
            let now = Instant::now();
            if count == 0 {
                return Ok(flow);
            }
            events.feed(&bytes[..count], |data| {
                if flow.is_continue() {
                    flow = each(now, data)?;
                }
                Ok(())
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Answered<Response<Body>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let sent = match method {
            "GET" => request.body(()).map(|request| self.agent.run(request)),
            _ => request
                .header("content-type", "application/json")
                .body(body.to_string())
                .map(|request| self.agent.run(request)),
        };
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(not_answered(&error)),
            Err(error) => return Err(Failure::Connection(error.to_string())),
        };
        if response.status().is_success() { Ok(response) } else { Err(refused(response)) }
    }
}

/// A whole answer as JSON.
fn whole(response: Response<Body>) -> Answered<Value> {
    let text = response.into_body().into_with_config().limit(LARGEST_ANSWER).read_to_vec();
    let text = text.map_err(|error| match error {
        ureq::Error::Timeout(_) => Failure::Timeout,
        ureq::Error::BodyExceedsLimit(_) => Failure::NotUnderstood("the answer does not end".to_string()),
        error => Failure::CutOff(error.to_string()),
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::NotUnderstood(format!("the answer is not JSON: {error}")))
}

/// What a status other than success says.
fn refused(response: Response<Body>) -> Failure {
    let code = response.status().as_u16();
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = header.and_then(|seconds| seconds.trim().parse().ok());
    let text =
        response.into_body().into_with_config().limit(LARGEST_ANSWER).lossy_utf8(true).read_to_string();
    let text = text.unwrap_or_default();
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let message = parsed.as_ref().and_then(error_message);
    let message = message.unwrap_or_else(|| text.chars().take(200).collect());
    Failure::Status { code, message, retry_after }
}

/// What an error object of the API says: `{"error": {"message": …}}`, or its message alone.
pub fn error_message(object: &Value) -> Option<String> {
    let error = object.get("error")?;
    let message = error.get("message").unwrap_or(error);
    Some(message.as_str().map_or_else(|| message.to_string(), str::to_string))
}

fn not_answered(error: &ureq::Error) -> Failure {
    match error {
        ureq::Error::Timeout(_) => Failure::Timeout,
        ureq::Error::Io(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
            Failure::Connection(cause.to_string())
        }
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Tls(_) => {
            Failure::Connection(error.to_string())
        }
        error => Failure::CutOff(error.to_string()),
    }
}

fn broken(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::Timeout,
        _ => Failure::CutOff(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(given: &str) -> Result<String> {
        Server::new(given, None, Duration::from_secs(1)).map(|server| server.address().to_string())
    }

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for given in ["http://h:80", "h:80", "http://h:80/", "http://h:80/v1", "h:80/v1/"] {
            assert_eq!(address(given).unwrap(), "http://h:80", "{given}");
        }
        assert_eq!(address("https://h/under/v1").unwrap(), "https://h/under");
        for given in ["", "ftp://h", "http://", "http://h/?x=1", "http://a b"] {
            assert!(address(given).is_err(), "{given}");
        }
    }

    #[test]
    fn errors_are_understood_in_the_forms_that_servers_have() {
        let said = |text: &str| error_message(&serde_json::from_str(text).unwrap());
        assert_eq!(said(r#"{"error":{"message":"no room","code":429}}"#).as_deref(), Some("no room"));
        assert_eq!(said(r#"{"error":"no room"}"#).as_deref(), Some("no room"));
        assert_eq!(said(r#"{"detail":"x"}"#), None);
    }
}
