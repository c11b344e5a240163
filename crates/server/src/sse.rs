//! Server-sent events: what streams are written as.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

/// After this time without an event a comment is sent, so that no proxy in between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Where events come from.
pub trait Source: Send + 'static {
    /// The next events, already written; none at the end. It may be dropped while it waits and called again.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;
}

/// Writes an event without a name.
pub fn data(text: &mut String, value: &Value) {
    text.push_str("data: ");
    text.push_str(&value.to_string());
    text.push_str("\n\n");
}

/// Writes an event with a name.
pub fn event(text: &mut String, name: &str, value: &Value) {
    text.push_str("event: ");
    text.push_str(name);
    text.push('\n');
    data(text, value);
}

/// Writes OpenAI's mark that nothing follows.
pub fn done(text: &mut String) {
    text.push_str("data: [DONE]\n\n");
}

/// The response that streams a source's events. Dropping it drops the source.
pub fn response(source: impl Source) -> Response {
    let chunks = stream::unfold(source, |mut source| async move {
        let chunk = match tokio::time::timeout(KEEP_ALIVE, source.next()).await {
            Ok(events) => events?,
            Err(_) => ": keep-alive\n\n".to_string(),
        };
        Some((Ok::<Bytes, Infallible>(chunk.into()), source))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies such as nginx pass events on as they come only when told so.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
