//! `POST /v1/embeddings`: texts as vectors of length 1.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use gleed_engine::normalize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::completions::{Prompt, prompts};
use crate::answer::Usage;
use crate::api::{Json, apart};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::model::Model;

/// Turns texts into vectors.
pub async fn answer(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let limits = arrival.app.limits.clone();
    let fields = &mut arrival.fields;
    let texts = prompts(fields.require("input")?, &model, &limits)?;
    let as_text = match fields.take("encoding_format") {
        Some(field) => field.word(&[("float", false), ("base64", true)])?,
        None => false,
    };
    let dimensions = fields.count("dimensions", 1..=u32::MAX as usize)?;
    fields.pass_over(&["user"]);
    arrival.all_read()?;
    arrival.note_prompt(|| format!("{texts:?}"));
    let own = model.clone();
    let tokens = apart(move || {
        let tokens = |text: Prompt| match text {
            Prompt::Text(text) => own.tokenizer.encode_prompt(&text, true, false),
            Prompt::Tokens(tokens) => tokens,
        };
        Ok(texts.into_iter().map(tokens).collect::<Vec<Vec<u32>>>())
    })
    .await?;
    let taken: usize = tokens.iter().map(Vec::len).sum();
    let vectors = vectors(&arrival, &model, tokens).await?;
    let width = vectors.first().map_or(0, Vec::len);
    if dimensions.is_some_and(|dimensions| dimensions != width) {
        let message = format!("the vectors of this model have {width} dimensions, and are not cut");
        return Err(Problem::unsupported("dimensions", message));
    }
    let entry = |(index, mut vector): (usize, Vec<f32>)| {
        normalize(&mut vector);
        let embedding = if as_text { base64(&vector).into() } else { Value::from(vector) };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    };
    let data: Vec<Value> = vectors.into_iter().enumerate().map(entry).collect();
    let usage = json!({ "prompt_tokens": taken, "total_tokens": taken });
    Ok(Json(json!({ "object": "list", "data": data, "model": model.id, "usage": usage })).into_response())
}

/// The vectors of texts, not normalised.
pub async fn vectors(
    arrival: &Arrival,
    model: &Arc<Model>,
    tokens: Vec<Vec<u32>>,
) -> Result<Vec<Vec<f32>>, Problem> {
    let taken = Usage { prompt: tokens.iter().map(Vec::len).sum(), ..Usage::default() };
    let (sender, receiver) = oneshot::channel();
    let reply = Box::new(move |vectors| {
        // The client may have left.
        let _ = sender.send(vectors);
    });
    let asked = model.engine.embed(tokens, reply).map_err(|refusal| Problem::from(refusal).about("input"));
    arrival.check(model, asked)?;
    let vectors = match receiver.await {
        Ok(vectors) => vectors.map_err(|error| Problem::from(error).about("input"))?,
        Err(_) => return arrival.check(model, Err(Problem::stopped())),
    };
    arrival.record.usage(taken);
    Ok(vectors)
}

/// A vector's bytes, lowest first, as text.
fn base64(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, place| bits << 8 | u32::from(*group.get(place).unwrap_or(&0)));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_become_text() {
        // Python: base64.b64encode(struct.pack("<3f", 1.0, -2.5, 3e-8))
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64(&[1.0, -2.5, 3e-8]), "AACAPwAAIMBZ2QAz");
        assert_eq!(base64(&[]), "");
    }
}
