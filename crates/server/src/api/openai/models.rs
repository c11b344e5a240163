//! `GET /v1/models`: which models there are.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::App;
use crate::api::Json;
use crate::errors::Problem;
use crate::registry::Entry;

/// All models, and their other names.
pub async fn list(State(app): State<Arc<App>>) -> Json {
    let names = |entry: &Arc<Entry>| -> Vec<Value> {
        let names = std::iter::once(&entry.offer.id).chain(&entry.offer.aliases);
        names.map(|name| described(&app, entry, name)).collect()
    };
    let models: Vec<Value> = app.models.entries().iter().flat_map(names).collect();
    Json(json!({ "object": "list", "data": models }))
}

/// One model.
pub async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json, Problem> {
    let entry = app.models.find(Some(&id))?;
    Ok(Json(described(&app, entry, &id)))
}

fn described(app: &App, entry: &Entry, name: &str) -> Value {
    let loaded = entry.peek();
    json!({
        "id": name,
        "object": "model",
        "created": app.models.started(),
        "owned_by": "gleed",
        "root": entry.offer.id,
        "loaded": loaded.is_some(),
        // vLLM's name for the context; not known before a model is loaded.
        "max_model_len": loaded.map(|model| model.context),
    })
}
