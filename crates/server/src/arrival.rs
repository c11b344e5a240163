//! A request as handlers get it: its fields, what it may ask for, and the record that will tell of it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use http_body_util::BodyExt;

use crate::App;
use crate::api::apart;
use crate::api::fields::Fields;
use crate::errors::Problem;
use crate::log::Record;
use crate::model::Model;

/// A request with a JSON object.
pub struct Arrival {
    /// The server.
    pub app: Arc<App>,
    /// What is noted of the request.
    pub record: Arc<Record>,
    /// The fields of its body.
    pub fields: Fields,
}

impl Arrival {
    /// Takes the model out of the fields and loads it if it is not loaded.
    pub async fn model(&mut self) -> Result<Arc<Model>, Problem> {
        let name = self.fields.string("model")?;
        self.model_of(name.as_deref()).await
    }

    /// Loads the model of a name, or the only one, if it is not loaded.
    pub async fn model_of(&self, name: Option<&str>) -> Result<Arc<Model>, Problem> {
        let entry = self.app.models.find(name)?.clone();
        self.record.model(&entry.offer.id);
        self.app.models.load(&entry).await
    }

    /// Notes the prompt, if the operator asks for it.
    pub fn note_prompt(&self, text: impl FnOnce() -> String) {
        if self.app.logs_prompts {
            self.record.prompt(text());
        }
    }

    /// Refuses fields that no handler has read.
    pub fn all_read(&mut self) -> Result<(), Problem> {
        std::mem::replace(&mut self.fields, Fields::empty()).finish()
    }

    /// Notes a problem that comes when the answer has begun.
    pub fn failed(&self, model: &Arc<Model>, problem: Problem) -> Problem {
        self.record.problem(&problem.message);
        self.check(model, Err::<(), _>(problem.clone())).err().unwrap_or(problem)
    }

    /// Forgets a model whose engine has stopped, so that the next request loads it again.
    pub fn check<T>(&self, model: &Arc<Model>, result: Result<T, Problem>) -> Result<T, Problem> {
        if result.as_ref().is_err_and(|problem| *problem == Problem::stopped()) {
            self.app.models.forget(model);
        }
        result
    }
}

/// From this many bytes on, a body takes long enough to read that other requests would notice.
const LARGE: usize = 64 << 10;

impl FromRequest<Arc<App>> for Arrival {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Arrival, Problem> {
        let record = request.extensions().get::<Arc<Record>>().cloned();
        let record = record.ok_or_else(|| Problem::internal("the request has no record"))?;
        let bytes = bytes(app, request.into_body()).await?;
        let fields = match bytes.len() {
            0..LARGE => Fields::of_body(&bytes)?,
            _ => apart(move || Fields::of_body(&bytes)).await?,
        };
        Ok(Arrival { app: app.clone(), record, fields })
    }
}

/// Bytes that are read past the limit and thrown away: a client that is still sending would not see the answer.
const THROWN_AWAY: usize = 64 << 20;

/// The whole body, if it is not too large and comes in time.
pub async fn bytes(app: &App, body: Body) -> Result<Vec<u8>, Problem> {
    let limit = app.limits.body;
    match tokio::time::timeout(app.limits.body_time, collected(body, limit)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            let message = format!("the body is longer than {limit} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message))
        }
        Ok(Err(error)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, "broken_body", format!("the body is broken: {error}")))
        }
        Err(_) => {
            let message = format!("the body did not come within {} s", app.limits.body_time.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", message))
        }
    }
}

/// The bytes of a body; none where there are more than `limit`.
async fn collected(mut body: Body, limit: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length += data.len();
        if length <= limit {
            bytes.extend_from_slice(&data);
        } else if length > limit.saturating_add(THROWN_AWAY) {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    Ok((length <= limit).then_some(bytes))
}
