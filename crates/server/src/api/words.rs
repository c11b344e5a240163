//! What a model's words are: `/tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::openai::conversation;
use super::{Json, apart};
use crate::answer::Question;
use crate::arrival::Arrival;
use crate::errors::Problem;

/// `POST /tokenize`: the tokens of a text.
pub async fn tokenize(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let fields = &mut arrival.fields;
    let text = fields.require("content")?.string()?;
    let around = fields.boolean("add_special")?.unwrap_or(false);
    let parse = fields.boolean("parse_special")?.unwrap_or(true);
    let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    arrival.all_read()?;
    let response = apart(move || {
        let tokens = model.tokenizer.encode_prompt(&text, around, parse);
        let count = tokens.len();
        let piece = |token: &u32| {
            let bytes = model.tokenizer.token_bytes(*token).unwrap_or_default();
            let piece = std::str::from_utf8(&bytes).map_or_else(|_| json!(bytes.as_ref()), Value::from);
            json!({ "id": token, "piece": piece })
        };
        let tokens = if with_pieces { tokens.iter().map(piece).collect() } else { json!(tokens) };
        Ok(json!({ "tokens": tokens, "count": count, "max_model_len": model.context }))
    });
    Ok(Json(response.await?).into_response())
}

/// `POST /detokenize`: the text of tokens.
pub async fn detokenize(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let tokens = arrival.fields.require("tokens")?.list()?;
    arrival.all_read()?;
    let tokens: Vec<u32> = tokens
        .into_iter()
        .map(|field| field.token(model.engine.vocabulary()))
        .collect::<Result<_, Problem>>()?;
    let options = gleed_tokenizer::DecodeOptions { show_control: true, continues: false };
    Ok(Json(json!({ "content": model.tokenizer.decode(&tokens, options) })).into_response())
}

/// `POST /apply-template`: the prompt that a conversation becomes, as text and as tokens.
pub async fn apply_template(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let limits = arrival.app.limits.clone();
    let conversation = conversation(&mut arrival.fields, &limits)?;
    arrival.all_read()?;
    let response = apart(move || {
        let question = Question::of_conversation(&model, &conversation)?;
        let prompt = question.reading.map(|reading| reading.written()).unwrap_or_default();
        Ok(json!({ "prompt": prompt, "tokens": question.tokens }))
    });
    Ok(Json(response.await?).into_response())
}
