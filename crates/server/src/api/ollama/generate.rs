//! `POST /api/generate`: one prompt, as a user's message or raw.

use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::lines::{Lines, Shape};
use super::messages::no_images;
use super::{keep, model, ndjson, options};
use crate::answer::{Answer, Conversation, Message, Question, constraints};
use crate::api::openai::chat::ask;
use crate::api::writing::{streamed, whole};
use crate::api::{Json, apart};
use crate::arrival::Arrival;
use crate::errors::Problem;

/// Parameters that ask for what there is not.
const REFUSED: [(&str, &str); 6] = [
    ("template", "a model keeps its own chat template; use `raw` with a prompt that is complete"),
    ("context", "send the conversation to /api/chat"),
    ("suffix", "text is only continued at its end"),
    ("width", "there are no images here"),
    ("height", "there are no images here"),
    ("steps", "there are no images here"),
];

/// Answers a prompt, in lines unless it is wanted in one piece. Without a prompt the model is only loaded.
pub async fn generate(mut arrival: Arrival) -> Result<Response, Problem> {
    let (model, times) = model(&mut arrival).await?;
    let app = arrival.app.clone();
    let fields = &mut arrival.fields;
    for (name, why) in REFUSED {
        fields.refuse(name, why)?;
    }
    no_images(fields)?;
    let prompt = fields.string("prompt")?.unwrap_or_default();
    let system = fields.string("system")?.filter(|system| !system.is_empty());
    let raw = fields.boolean("raw")?.unwrap_or(false);
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let unloads = keep::read(fields)?;
    let wishes = options::wishes(fields, &app, &model)?;
    let (form, reasoning) = (options::form(fields, &app.limits)?, options::think(fields)?);
    arrival.all_read()?;
    if prompt.is_empty() {
        let empty = json!({ "response": "" });
        return Ok(Json(keep::loaded(&model, times, unloads, empty)?).into_response());
    }
    let asked = if raw {
        if system.is_some() || reasoning.is_some() {
            let message = "`raw` takes a prompt as it is; write `system` and `think` into it";
            return Err(Problem::invalid("raw", message));
        }
        arrival.note_prompt(|| prompt.clone());
        let own = model.clone();
        let (question, constraints) = apart(move || {
            let question = Question::of_text(&own, &prompt);
            let form = Conversation { form, ..Conversation::default() };
            let constraints = constraints(&own, &form, &question, 1)?;
            Ok((question, constraints))
        })
        .await?;
        Answer::ask(model.clone(), vec![question], &wishes, constraints, &app.metrics)
    } else {
        let system = system.map(|content| Message { role: "system", content, ..Message::default() });
        let user = Message { role: "user", content: prompt, ..Message::default() };
        let messages = system.into_iter().chain([user]).collect();
        let conversation = Conversation { messages, form, reasoning, ..Conversation::default() };
        ask(&arrival, model.clone(), conversation, wishes).await
    };
    let mut answer = arrival.check(&model, asked)?;
    let mut lines = Lines::new(Shape::Generate, &model.id, times);
    if streams {
        return Ok(streamed(lines, answer, arrival, ndjson::response));
    }
    whole(&mut lines, &mut answer, &arrival).await?;
    Ok(Json(lines.answer()).into_response())
}
