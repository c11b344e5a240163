//! Lines of JSON: what Ollama's streams are written as.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use crate::sse::Source;

/// Writes a line.
pub fn line(text: &mut String, value: &Value) {
    text.push_str(&value.to_string());
    text.push('\n');
}

/// The response that streams a source's lines. Dropping it drops the source. Clients read every line as an answer, so
/// that there is nothing to send while none comes.
pub fn response(source: impl Source) -> Response {
    let chunks = stream::unfold(source, |mut source| async move {
        let lines = source.next().await?;
        Some((Ok::<Bytes, Infallible>(lines.into()), source))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
