//! `POST /api/embed` and its older form, `POST /api/embeddings`: texts as vectors.

use std::sync::Arc;

use gleed_engine::normalize;
use serde_json::json;

use super::{Times, keep, model, nanoseconds, options};
use crate::api::openai::embeddings::vectors;
use crate::api::{Json, apart};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::model::Model;

/// Turns texts into vectors of length 1.
pub async fn embed(mut arrival: Arrival) -> Result<Json, Problem> {
    let (model, times) = model(&mut arrival).await?;
    let most = arrival.app.limits.messages;
    let fields = &mut arrival.fields;
    let input = fields.require("input")?;
    let texts = match input.value.is_string() {
        true => vec![input.string()?],
        false => input.short_list(most)?.into_iter().map(|text| text.string()).collect::<Result<_, _>>()?,
    };
    // Texts that are too long are refused unless a cut is asked for.
    let cuts = fields.boolean("truncate")?.unwrap_or(false);
    let dimensions = fields.count("dimensions", 1..=u32::MAX as usize)?;
    let (mut vectors, tokens) = computed(&mut arrival, &model, texts, cuts).await?;
    let width = vectors.first().map_or(0, Vec::len);
    if dimensions.is_some_and(|dimensions| dimensions != width) {
        let message = format!("the vectors of this model have {width} dimensions, and are not cut");
        return Err(Problem::unsupported("dimensions", message));
    }
    vectors.iter_mut().for_each(|vector| normalize(vector));
    let Times { began, load } = times;
    Ok(Json(json!({
        "model": model.id,
        "embeddings": vectors,
        "total_duration": nanoseconds(began.elapsed()),
        "load_duration": nanoseconds(load),
        "prompt_eval_count": tokens,
    })))
}

/// Turns a text into a vector.
pub async fn embeddings(mut arrival: Arrival) -> Result<Json, Problem> {
    let (model, _) = model(&mut arrival).await?;
    let text = arrival.fields.require("prompt")?.string()?;
    let (vectors, _) = computed(&mut arrival, &model, vec![text], false).await?;
    Ok(Json(json!({ "embedding": vectors.first() })))
}

/// The vectors of texts and how many tokens they have, when all other fields are read.
async fn computed(
    arrival: &mut Arrival,
    model: &Arc<Model>,
    texts: Vec<String>,
    cuts: bool,
) -> Result<(Vec<Vec<f32>>, usize), Problem> {
    let app = arrival.app.clone();
    keep::read(&mut arrival.fields)?;
    // They change no vector, but may not be wrong.
    options::wishes(&mut arrival.fields, &app, model)?;
    arrival.all_read()?;
    arrival.note_prompt(|| format!("{texts:?}"));
    let own = model.clone();
    let tokens = apart(move || {
        let tokens = |text: &String| {
            let mut tokens = own.tokenizer.encode_prompt(text, true, false);
            if cuts {
                tokens.truncate(own.engine.longest_text());
            }
            tokens
        };
        Ok(texts.iter().map(tokens).collect::<Vec<Vec<u32>>>())
    })
    .await?;
    let count = tokens.iter().map(Vec::len).sum();
    Ok((vectors(arrival, model, tokens).await?, count))
}
