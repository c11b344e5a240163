//! `GET /openapi.json`: the description of the API for programs. It is kept by hand; tests hold it against the routes
//! and the parameters that are taken.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// The description.
const TEXT: &str = include_str!("openapi.json");

/// Tells the description.
pub async fn description() -> Response {
    let mut response = TEXT.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
