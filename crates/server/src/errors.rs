//! What can be wrong with a request, in no API's own words.
//!
//! Handlers and layers return a [`Problem`]; it travels in the extensions of an empty response, and the outermost layer
//! ([`written`]) writes it in the dialect of the path that was asked.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gleed_engine::{Error, Refusal};
use serde_json::{Value, json};

use crate::api::{anthropic, ollama};

/// Seconds after which a client that was turned away may try again.
const RETRY_AFTER: u64 = 1;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The status that tells it.
    pub status: StatusCode,
    /// One sentence for people: what, where, what to do.
    pub message: String,
    /// The parameter that it is about, as a path: `tools[0].function.name`.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
}

impl Problem {
    /// A problem with this status.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, message: message.into(), param: None, code: Some(code) }
    }

    /// A parameter with a value that is not allowed.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Problem {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "invalid_value", message);
        Problem { param: Some(param.into()), ..problem }
    }

    /// A parameter that would ask for something that there is not.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { code: Some("unsupported_parameter"), ..Problem::invalid(param, message) }
    }

    /// A model that is not served here.
    pub fn unknown_model(name: &str) -> Problem {
        let message = format!("there is no model `{name}` here; GET /v1/models lists those that are");
        let problem = Problem::new(StatusCode::NOT_FOUND, "model_not_found", message);
        Problem { param: Some("model".to_string()), ..problem }
    }

    /// Something that is wrong with the server, not with the request.
    pub fn internal(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// Something that is not there at the moment.
    pub fn unavailable(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// The server takes no more requests.
    pub fn closing() -> Problem {
        Problem::unavailable("the server is shutting down")
    }

    /// The engine has ended, whatever for; it is started again when it is asked next.
    pub fn stopped() -> Problem {
        Problem::unavailable("the model has stopped and is loaded again with the next request")
    }

    /// The same about a parameter, if it is about one at all and does not say which.
    pub fn about(self, param: &str) -> Problem {
        let named = || (self.status == StatusCode::BAD_REQUEST).then(|| param.to_string());
        Problem { param: self.param.or_else(named), ..self }
    }

    /// What a problem is called in OpenAI's `type`.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "service_unavailable_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The object that OpenAI's API tells a problem with.
    pub fn openai(&self) -> Value {
        json!({
            "error": {
                "message": self.message,
                "type": self.kind(),
                "param": self.param,
                "code": self.code,
            }
        })
    }
}

/// An engine's refusal or failure, told to the client that sent the request.
impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let message = error.to_string();
        match error {
            Error::PromptTooLong { .. } | Error::TextTooLong { .. } => {
                Problem::new(StatusCode::BAD_REQUEST, "context_length_exceeded", message)
            }
            Error::Setting { name, .. } | Error::UnknownToken { name, .. } => Problem::invalid(name, message),
            Error::EmptyStop { .. } => Problem::invalid("stop", message),
            Error::EmptyPrompt | Error::EmptyText { .. } | Error::Constraint(_) => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid_value", message)
            }
            Error::NoLogits | Error::NoEmbedding => {
                Problem { code: Some("unsupported_model"), ..Problem::invalid("model", message) }
            }
            Error::NoPages { .. } | Error::NoSlots { .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "out_of_memory", message)
            }
            Error::TooLate => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message),
            _ => Problem::internal(message),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let message = refusal.to_string();
        match refusal {
            Refusal::Invalid(error) => error.into(),
            Refusal::QueueFull { .. } => Problem::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message),
            Refusal::Closing => Problem::closing(),
            Refusal::Stopped => Problem::stopped(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// In which words a problem is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
}

impl Dialect {
    /// The dialect of the API that a path belongs to.
    fn of(path: &str) -> Dialect {
        match path {
            "/v1/messages" => Dialect::Anthropic,
            _ if path.starts_with("/v1/messages/") => Dialect::Anthropic,
            _ if path.starts_with("/api/") => Dialect::Ollama,
            _ => Dialect::OpenAi,
        }
    }

    fn write(self, problem: &Problem) -> Value {
        match self {
            Dialect::OpenAi => problem.openai(),
            Dialect::Anthropic => anthropic::error(problem),
            Dialect::Ollama => ollama::error(problem),
        }
    }
}

/// Writes the problem that a response carries, if it carries one, in the dialect of the path that was asked.
pub fn written(path: &str, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Some(problem) = parts.extensions.remove::<Problem>() else {
        return Response::from_parts(parts, body);
    };
    let text = Dialect::of(path).write(&problem).to_string();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(text))
}
