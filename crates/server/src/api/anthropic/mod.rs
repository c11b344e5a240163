//! Anthropic's API: `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod content;
mod errors;
mod messages;
mod request;

use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::openai::chat::ask;
use super::writing::{streamed, whole};
use super::{Json, apart};
use crate::answer::Question;
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::sse;
use content::Content;
use request::Wanted;

pub use errors::error;

/// Answers, in one piece or as events.
pub async fn answer(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let Wanted { conversation, wishes, streams } = request::read(&mut arrival, &model)?;
    let most = wishes.settings.max_tokens;
    let asked = ask(&arrival, model.clone(), conversation, wishes).await;
    let mut answer = arrival.check(&model, asked)?;
    let mut content = Content::new(&model.id, most);
    if streams {
        return Ok(streamed(content, answer, arrival, sse::response));
    }
    whole(&mut content, &mut answer, &arrival).await?;
    Ok(Json(content.message()).into_response())
}

/// Counts the tokens of what would be asked.
pub async fn count_tokens(mut arrival: Arrival) -> Result<Json, Problem> {
    let model = arrival.model().await?;
    let conversation = request::read_question(&mut arrival, &model)?;
    let question = apart(move || Question::of_conversation(&model, &conversation)).await?;
    Ok(Json(json!({ "input_tokens": question.tokens.len() })))
}
