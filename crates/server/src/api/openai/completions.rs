//! `POST /v1/completions`: texts that are continued as they are, without a chat template.

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::FINGERPRINT;
use super::conversation::form;
use super::logprobs::Listed;
use super::sampling::{StreamOptions, most_tokens, wishes};
use super::text_stream::TextStream;
use super::usage::{finish_reason, usage};
use crate::answer::{Answer, Conversation, Question, Whole, Wishes, constraints};
use crate::api::fields::Field;
use crate::api::{Json, apart};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::ids;
use crate::limits::Limits;
use crate::model::Model;

type Result<T> = std::result::Result<T, Problem>;

/// A prompt as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Text, in which control tokens are read as such.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// What is asked for.
struct Completion {
    prompts: Vec<Prompt>,
    wishes: Wishes,
    form: Conversation,
    stream: Option<StreamOptions>,
    echo: bool,
}

/// Continues texts.
pub async fn answer(mut arrival: Arrival) -> Result<Response> {
    let model = arrival.model().await?;
    let Completion { prompts, wishes, form, stream, echo } = read(&mut arrival, &model)?;
    arrival.note_prompt(|| format!("{prompts:?}"));
    let (own, choices) = (model.clone(), wishes.choices);
    let (questions, echoes, constraints) = apart(move || {
        let question = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => Question::of_text(&own, text),
            Prompt::Tokens(tokens) => Question::of_tokens(tokens.clone()),
        };
        let questions: Vec<Question> = prompts.iter().map(question).collect();
        let written = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Tokens(tokens) => own.tokenizer.decode(tokens, Default::default()),
        };
        let echoes: Vec<String> = if echo { prompts.iter().map(written).collect() } else { Vec::new() };
        let mut all = Vec::new();
        for question in &questions {
            all.extend(constraints(&own, &form, question, choices)?);
        }
        Ok((questions, echoes, all))
    })
    .await?;
    let asked = Answer::ask(model.clone(), questions, &wishes, constraints, &arrival.app.metrics);
    let mut answer = arrival.check(&model, asked.map_err(|problem| problem.about("prompt")))?;
    let echoes: Vec<String> =
        echoes.iter().flat_map(|echo| std::iter::repeat_n(echo.clone(), choices)).collect();
    let id = ids::new("cmpl-");
    if let Some(options) = stream {
        return Ok(TextStream::response(id, answer, echoes, options, arrival));
    }
    let wholes = answer.whole().await;
    let wholes = arrival.check(&model, wholes)?;
    arrival.record.usage(answer.usage());
    let choices: Vec<Value> = wholes
        .iter()
        .enumerate()
        .map(|(index, whole)| {
            let echo = echoes.get(index).map_or("", String::as_str);
            choice(index, whole, echo, &model, &arrival)
        })
        .collect();
    let response = json!({
        "id": id,
        "object": "text_completion",
        "created": ids::now(),
        "model": model.id,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": usage(answer.usage()),
    });
    Ok(Json(response).into_response())
}

/// Reads a request, all of it.
fn read(arrival: &mut Arrival, model: &Model) -> Result<Completion> {
    let app = arrival.app.clone();
    let fields = &mut arrival.fields;
    fields.refuse("suffix", "text is only continued at its end")?;
    let prompts = prompts(fields.require("prompt")?, model, &app.limits)?;
    let mut wishes = wishes(fields, &app, model.engine.vocabulary())?;
    let best_of = fields.count("best_of", 1..=app.limits.choices)?;
    if best_of.is_some_and(|best_of| best_of != wishes.choices) {
        return Err(Problem::unsupported("best_of", "all answers are given, not the best: use `n`"));
    }
    // OpenAI's default here.
    wishes.settings.max_tokens = Some(most_tokens(fields)?.unwrap_or(16));
    wishes.settings.logprobs = fields.count("logprobs", 0..=app.limits.top_logprobs)?;
    let echo = fields.boolean("echo")?.unwrap_or(false);
    if echo && wishes.settings.logprobs.is_some() {
        return Err(Problem::unsupported("echo", "log-probabilities are told of answers, not of prompts"));
    }
    let stream = StreamOptions::read(fields)?;
    let form = Conversation { form: form(fields, &app.limits)?, ..Conversation::default() };
    arrival.all_read()?;
    if prompts.len() * wishes.choices > app.limits.choices.max(prompts.len()) {
        let message = format!("{} prompts with {} answers each are too many", prompts.len(), wishes.choices);
        return Err(Problem::invalid("n", message));
    }
    Ok(Completion { prompts, wishes, form, stream, echo })
}

/// Prompts or texts: one or several, as text or as tokens.
pub fn prompts(field: Field, model: &Model, limits: &Limits) -> Result<Vec<Prompt>> {
    let vocabulary = model.engine.vocabulary();
    let tokens = |fields: Vec<Field>| {
        let tokens = fields.into_iter().map(|field| field.token(vocabulary)).collect::<Result<_>>();
        tokens.map(Prompt::Tokens)
    };
    if field.value.is_string() {
        return Ok(vec![Prompt::Text(field.string()?)]);
    }
    if !field.value.is_array() {
        return Err(field.wrong("a string, a list of strings, or tokens"));
    }
    if field.value.get(0).is_some_and(Value::is_number) {
        return Ok(vec![tokens(field.short_list(limits.body)?)?]);
    }
    let one = |field: Field| match &field.value {
        Value::String(_) => field.string().map(Prompt::Text),
        Value::Array(_) => tokens(field.short_list(limits.body)?),
        _ => Err(field.wrong("a string or a list of tokens")),
    };
    field.short_list(limits.messages)?.into_iter().map(one).collect()
}

/// One complete choice.
fn choice(index: usize, whole: &Whole, echo: &str, model: &Model, arrival: &Arrival) -> Value {
    let reason = whole.ending.as_ref().map(finish_reason);
    reason.into_iter().for_each(|reason| arrival.record.ended(reason));
    let mut listed = Listed::default();
    whole.tokens.iter().for_each(|token| listed.add(token, &model.tokenizer));
    json!({
        "index": index,
        "text": format!("{echo}{}", whole.text),
        "logprobs": listed.take(),
        "finish_reason": reason,
    })
}
