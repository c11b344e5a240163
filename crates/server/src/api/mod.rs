//! All that can be asked, and which handler answers it.

pub mod anthropic;
pub mod fields;
mod json;
mod lora;
pub mod ollama;
mod openai;
mod openapi;
mod responses;
mod words;
mod writing;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

pub use json::Json;

use crate::App;
use crate::errors::Problem;
use crate::health;
use crate::layers::{around, not_found, wrong_method};
use crate::page;

/// The routes of a server.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat::answer))
        .route("/v1/completions", post(openai::completions::answer))
        .route("/v1/embeddings", post(openai::embeddings::answer))
        .route("/v1/responses", post(responses::answer))
        .route("/v1/messages", post(anthropic::answer))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/api/chat", post(ollama::chat))
        .route("/api/generate", post(ollama::generate))
        .route("/api/embed", post(ollama::embed))
        .route("/api/embeddings", post(ollama::embeddings))
        .route("/api/tags", get(ollama::tags))
        .route("/api/show", post(ollama::show))
        .route("/api/ps", get(ollama::ps))
        .route("/api/version", get(ollama::version))
        .route("/tokenize", post(words::tokenize))
        .route("/detokenize", post(words::detokenize))
        .route("/apply-template", post(words::apply_template))
        .route("/lora-adapters", get(lora::list).post(lora::set))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*id}", get(openai::models::one))
        .route("/health", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/status.json", get(health::status))
        .route("/openapi.json", get(openapi::description))
        .merge(page::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app)
}

/// Does heavy work on a thread for such work. A panic in it is a problem of this request alone.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let failed = |_| Problem::internal("something went wrong with this request; the server's log says more");
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(failed(panic)))
}
