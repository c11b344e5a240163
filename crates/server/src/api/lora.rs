//! `/lora-adapters`: which adapters there are and how much of each answers take, as llama-server has it.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use serde_json::Value;

use super::Json;
use super::fields::Field;
use crate::App;
use crate::adapters::AdapterWish;
use crate::arrival;
use crate::errors::Problem;
use crate::model::Model;

/// All adapters of a model.
pub async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Json, Problem> {
    Ok(Json(model(&app, query.as_deref()).await?.adapters.list()))
}

/// Says how much of each answers take that do not say themselves.
pub async fn set(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Json, Problem> {
    let bytes = arrival::bytes(&app, request.into_body()).await?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Problem::invalid("body", format!("the body is not JSON: {error}")))?;
    let wishes = AdapterWish::read(Field { path: "body".to_string(), value })?;
    let model = model(&app, query.as_deref()).await?;
    model.adapters.set(&wishes)?;
    Ok(Json(model.adapters.list()))
}

/// The model that `?model=` names, or the only one.
async fn model(app: &App, query: Option<&str>) -> Result<Arc<Model>, Problem> {
    let named = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("model="));
    let entry = app.models.find(named)?.clone();
    app.models.load(&entry).await
}
