//! Whether the server lives and takes requests, for those who look after it; and what it does, for those who watch.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::App;
use crate::api::Json;
use crate::errors::Problem;
use crate::status;

/// `GET /health`: 200 while requests are taken, 503 while the server shuts down.
pub async fn health(State(app): State<Arc<App>>) -> Result<Json, Problem> {
    if app.is_closing() { Err(Problem::closing()) } else { Ok(Json(json!({ "status": "ok" }))) }
}

/// `GET /metrics`, for Prometheus.
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let text = app.metrics.text().map_err(|error| Problem::internal(error.to_string()))?;
    let mut response = text.into_response();
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// `GET /status.json?since=TIME`, for the status page.
pub async fn status(State(app): State<Arc<App>>, uri: Uri) -> Result<Json, Problem> {
    let mut since = 0;
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let time = pair.strip_prefix("since=").and_then(|time| time.parse().ok());
        since = time.ok_or_else(|| Problem::invalid("since", format!("`{pair}` must be `since=TIME`")))?;
    }
    Ok(Json(status::report(&app, since)))
}
