//! OpenAI's newer API, `POST /v1/responses`: items in, items out. Nothing is stored.

mod input;
mod output;
mod request;

use axum::response::{IntoResponse, Response};

use super::openai::chat::ask;
use super::writing::{streamed, whole};
use crate::api::Json;
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::sse;
use output::Output;
use request::Wanted;

/// Answers, in one piece or as events.
pub async fn answer(mut arrival: Arrival) -> Result<Response, Problem> {
    let model = arrival.model().await?;
    let Wanted { conversation, wishes, streams, told } = request::read(&mut arrival, &model)?;
    let asked = ask(&arrival, model.clone(), conversation, wishes).await.map_err(renamed);
    let mut answer = arrival.check(&model, asked)?;
    let mut output = Output::new(&model.id, told);
    if streams {
        return Ok(streamed(output, answer, arrival, sse::response));
    }
    whole(&mut output, &mut answer, &arrival).await?;
    Ok(Json(output.response()).into_response())
}

/// A problem about a parameter that has another name here.
fn renamed(problem: Problem) -> Problem {
    let names = [
        ("messages", "input"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
        ("max_tokens", "max_output_tokens"),
    ];
    let rename = |param: String| {
        let found = names.iter().find(|(old, _)| *old == param);
        found.map_or(param, |(_, new)| new.to_string())
    };
    Problem { param: problem.param.map(rename), ..problem }
}
