//! A JSON document as a response.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// A response that is this value.
pub struct Json(pub Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let mut response = self.0.to_string().into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
