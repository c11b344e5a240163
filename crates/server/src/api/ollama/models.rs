//! Which models there are: `/api/tags`, `/api/ps`, `/api/show` and `/api/version`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use serde_json::{Map, Value, json};

use super::{model, utc};
use crate::App;
use crate::api::Json;
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::model::Model;
use crate::registry::Entry;

/// The version of Ollama whose API this is: clients refuse to work with one that they think too old.
const VERSION: &str = "0.12.6";

/// `GET /api/version`.
pub async fn version() -> Json {
    Json(json!({ "version": VERSION, "gleed": env!("CARGO_PKG_VERSION") }))
}

/// `GET /api/tags`: all models, and their other names.
pub async fn tags(State(app): State<Arc<App>>) -> Json {
    let names = |entry: &Arc<Entry>| -> Vec<Value> {
        let model = entry.peek();
        let names = std::iter::once(&entry.offer.id).chain(&entry.offer.aliases);
        names.map(|name| Value::Object(described(&app, name, model.as_deref()))).collect()
    };
    let models: Vec<Value> = app.models.entries().iter().flat_map(names).collect();
    Json(json!({ "models": models }))
}

/// `GET /api/ps`: the models that are loaded.
pub async fn ps(State(app): State<Arc<App>>) -> Json {
    let loaded = |entry: &Arc<Entry>| {
        let model = entry.peek()?;
        let mut described = described(&app, &entry.offer.id, Some(&model));
        described.remove("modified_at");
        described.insert("context_length".to_string(), model.context.into());
        // When a model is unloaded depends on who asks for it: as far as is known, never.
        described.insert("expires_at".to_string(), "9999-12-31T23:59:59Z".into());
        described.insert("size_vram".to_string(), 0.into());
        Some(Value::Object(described))
    };
    let models: Vec<Value> = app.models.entries().iter().filter_map(loaded).collect();
    Json(json!({ "models": models }))
}

/// `POST /api/show`: what a model is and what it can do.
pub async fn show(mut arrival: Arrival) -> Result<Json, Problem> {
    let (model, _) = model(&mut arrival).await?;
    // There is no shorter form.
    arrival.fields.boolean("verbose")?;
    arrival.all_read()?;
    let (chat, tool_chat) = (model.chat(false), model.chat(true));
    let capabilities = [
        ("completion", !model.engine.gives_embeddings()),
        ("tools", tool_chat.format.marks_calls()),
        ("thinking", chat.format.marks_reasoning()),
        ("embedding", model.engine.gives_embeddings()),
    ];
    let capabilities: Vec<&str> =
        capabilities.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let family = fact(&model, "architecture").as_str().unwrap_or("unknown").to_string();
    let mut info = Map::new();
    info.insert("general.architecture".to_string(), family.as_str().into());
    info.insert("general.parameter_count".to_string(), fact(&model, "parameters"));
    info.insert(format!("{family}.context_length"), model.context.into());
    let mut shown = json!({
        "modified_at": modified(&arrival.app),
        "details": details(Some(&model)),
        "model_info": info,
        "capabilities": capabilities,
        "parameters": "",
        "license": "",
        "modelfile": "",
    });
    shown["template"] = chat.template.source().into();
    Ok(Json(shown))
}

/// What is told of a model in lists. Of one that is not loaded only its name is known.
fn described(app: &App, name: &str, model: Option<&Model>) -> Map<String, Value> {
    let size = model.map_or(Value::Null, |model| fact(model, "weight_bytes"));
    let described = json!({
        "name": name,
        "model": name,
        "modified_at": modified(app),
        "size": if size.is_null() { 0.into() } else { size },
        "digest": "",
        "details": details(model),
    });
    match described {
        Value::Object(described) => described,
        _ => Map::new(),
    }
}

fn details(model: Option<&Model>) -> Value {
    let fact = |name| model.map_or(Value::Null, |model| fact(model, name));
    let family = fact("architecture").as_str().unwrap_or_default().to_string();
    let families: Vec<&str> = Some(family.as_str()).filter(|family| !family.is_empty()).into_iter().collect();
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": families,
        "parameter_size": fact("parameters").as_u64().map(shortened).unwrap_or_default(),
        "quantization_level": fact("format").as_str().unwrap_or_default(),
    })
}

/// What the loader told of a model.
fn fact(model: &Model, name: &str) -> Value {
    model.about.get(name).cloned().unwrap_or(Value::Null)
}

/// A number of parameters as people say it: 134.5M, 1.5B.
fn shortened(count: u64) -> String {
    match count as f64 {
        count if count >= 1e9 => format!("{:.1}B", count / 1e9),
        count if count >= 1e6 => format!("{:.1}M", count / 1e6),
        count => format!("{:.1}K", count / 1e3),
    }
}

/// Since when models are as they are, as far as the server knows.
fn modified(app: &App) -> String {
    utc(UNIX_EPOCH.checked_add(Duration::from_secs(app.models.started())).unwrap_or_else(SystemTime::now))
}
