//! `POST /api/chat`.

use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::lines::{Lines, Shape};
use super::messages::{messages, tool};
use super::{keep, model, ndjson, options};
use crate::answer::Conversation;
use crate::api::Json;
use crate::api::openai::chat::ask;
use crate::api::openai::conversation::{tool_choice, tools};
use crate::api::writing::{streamed, whole};
use crate::arrival::Arrival;
use crate::errors::Problem;

/// Answers a chat, in lines unless it is wanted in one piece. Without messages the model is only loaded.
pub async fn chat(mut arrival: Arrival) -> Result<Response, Problem> {
    let (model, times) = model(&mut arrival).await?;
    let app = arrival.app.clone();
    let fields = &mut arrival.fields;
    let messages = messages(fields.take("messages"), app.limits.messages)?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let unloads = keep::read(fields)?;
    let wishes = options::wishes(fields, &app, &model)?;
    let tools = match fields.take("tools") {
        Some(field) => tools(field, &app.limits, tool)?,
        None => Vec::new(),
    };
    // Not Ollama's, but there is no other way to ask for a call.
    let tool_choice = tool_choice(fields.take("tool_choice"), &tools)?;
    let (form, reasoning) = (options::form(fields, &app.limits)?, options::think(fields)?);
    arrival.all_read()?;
    if messages.is_empty() {
        let empty = json!({ "message": { "role": "assistant", "content": "" } });
        return Ok(Json(keep::loaded(&model, times, unloads, empty)?).into_response());
    }
    // The model goes on with a last message of its own, as in Ollama.
    let continues = messages.last().is_some_and(|last| last.role == "assistant" && last.calls.is_empty());
    let conversation = Conversation {
        messages,
        tools,
        tool_choice,
        parallel_calls: true,
        form,
        reasoning,
        continues,
        ..Conversation::default()
    };
    let asked = ask(&arrival, model.clone(), conversation, wishes).await;
    let mut answer = arrival.check(&model, asked)?;
    let mut lines = Lines::new(Shape::Chat, &model.id, times);
    if streams {
        return Ok(streamed(lines, answer, arrival, ndjson::response));
    }
    whole(&mut lines, &mut answer, &arrival).await?;
    Ok(Json(lines.answer()).into_response())
}
