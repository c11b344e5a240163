//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::FINGERPRINT;
use super::conversation::conversation;
use super::logprobs;
use super::sampling::{StreamOptions, most_tokens, wishes};
use super::stream::ChatStream;
use super::usage::{finish_reason, usage};
use crate::answer::{Answer, Conversation, Question, Whole, WholeCall, Wishes, constraints};
use crate::api::fields::Fields;
use crate::api::{Json, apart};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::ids;
use crate::model::Model;

/// What a chat asks for.
struct Chat {
    conversation: Conversation,
    wishes: Wishes,
    stream: Option<StreamOptions>,
}

/// Answers a chat, in one piece or as events.
pub async fn answer(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let Chat { conversation, wishes, stream } = read(&mut arrival, &model)?;
    let asked = ask(&arrival, model.clone(), conversation, wishes).await;
    let mut answer = arrival.check(&model, asked)?;
    let id = ids::new("chatcmpl-");
    if let Some(options) = stream {
        return Ok(ChatStream::response(id, answer, options, arrival));
    }
    let wholes = answer.whole().await;
    let wholes = arrival.check(&model, wholes)?;
    arrival.record.usage(answer.usage());
    let choices: Vec<Value> =
        wholes.iter().enumerate().map(|(index, whole)| choice(index, whole, &model, &arrival)).collect();
    let response = json!({
        "id": id,
        "object": "chat.completion",
        "created": ids::now(),
        "model": model.id,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": usage(answer.usage()),
    });
    Ok(Json(response).into_response())
}

/// Reads a request, all of it.
fn read(arrival: &mut Arrival, model: &Model) -> Result<Chat, Problem> {
    let app = arrival.app.clone();
    let fields = &mut arrival.fields;
    for (name, why) in [
        ("functions", "use `tools`"),
        ("function_call", "use `tool_choice`"),
        ("audio", "there is no sound here"),
        ("prediction", "guesses are the server's own"),
        ("web_search_options", "nothing is searched here"),
        ("verbosity", "say it in a message"),
    ] {
        fields.refuse(name, why)?;
    }
    modalities(fields)?;
    let mut wishes = wishes(fields, &app, model.engine.vocabulary())?;
    wishes.settings.max_tokens = most_tokens(fields)?;
    let logprobs = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=app.limits.top_logprobs)?;
    if top.is_some() && !logprobs {
        return Err(Problem::invalid("top_logprobs", "`top_logprobs` needs `logprobs: true`"));
    }
    wishes.settings.logprobs = logprobs.then_some(top.unwrap_or(0));
    let stream = StreamOptions::read(fields)?;
    let conversation = conversation(fields, &app.limits)?;
    arrival.all_read()?;
    Ok(Chat { conversation, wishes, stream })
}

fn modalities(fields: &mut Fields) -> Result<(), Problem> {
    let Some(field) = fields.take("modalities") else { return Ok(()) };
    field.list()?.into_iter().try_for_each(|kind| kind.word(&[("text", ())]))
}

/// Turns the conversation into a prompt and asks the engine.
pub async fn ask(
    arrival: &Arrival,
    model: Arc<Model>,
    conversation: Conversation,
    wishes: Wishes,
) -> Result<Answer, Problem> {
    let own = model.clone();
    let choices = wishes.choices;
    let (question, constraints) = apart(move || {
        let question = Question::of_conversation(&own, &conversation)?;
        let constraints = constraints(&own, &conversation, &question, choices)?;
        Ok((question, constraints))
    })
    .await?;
    arrival.note_prompt(|| question.reading.as_ref().map(|reading| reading.written()).unwrap_or_default());
    Answer::ask(model, vec![question], &wishes, constraints, &arrival.app.metrics)
        .map_err(|problem| problem.about("messages"))
}

/// One complete choice.
fn choice(index: usize, whole: &Whole, model: &Model, arrival: &Arrival) -> Value {
    let mut message = Map::new();
    message.insert("role".to_string(), "assistant".into());
    let is_silent = whole.text.is_empty() && !whole.calls.is_empty();
    let content = if is_silent { Value::Null } else { whole.text.as_str().into() };
    message.insert("content".to_string(), content);
    message.insert("refusal".to_string(), Value::Null);
    if !whole.reasoning.is_empty() {
        message.insert("reasoning_content".to_string(), whole.reasoning.as_str().into());
    }
    if !whole.calls.is_empty() {
        let call = |WholeCall { id, name, arguments }: &WholeCall| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        message.insert("tool_calls".to_string(), whole.calls.iter().map(call).collect());
    }
    let reason = whole.ending.as_ref().map(finish_reason);
    reason.into_iter().for_each(|reason| arrival.record.ended(reason));
    let wants_logprobs = whole.tokens.iter().any(|token| token.logprob.is_some());
    let logprobs = wants_logprobs.then(|| {
        let entry = |token| logprobs::of_chat(token, &model.tokenizer);
        json!({ "content": whole.tokens.iter().map(entry).collect::<Vec<_>>(), "refusal": null })
    });
    json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": reason })
}
