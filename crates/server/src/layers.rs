//! What happens around every handler: a record is kept, those who may not ask are turned away, a panic becomes a 500
//! and a problem is written in the words of its API.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Frame, SizeHint};

use crate::App;
use crate::errors::{Problem, written};
use crate::log::Record;

/// Paths that are open to those without a key: what tells nothing of what others ask.
fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/v1/health" | "/" | "/status" | "/favicon.ico" | "/openapi.json")
        || path.starts_with("/page/")
}

/// Runs a request's handler with all that belongs around it.
pub async fn around(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let record = Record::new(method.clone(), route.to_string(), app.log.clone(), app.metrics.clone());
    let record = Arc::new(record);
    let flight = app.flights.clone();
    let headers = request.headers().clone();
    request.extensions_mut().insert(record.clone());
    let response = match admit(&app, &method, &path, &headers) {
        Err(problem) => problem.into_response(),
        Ok(Some(response)) => response,
        Ok(None) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => Problem::internal("something went wrong with this request; the server's log says more")
                .into_response(),
        },
    };
    if let Some(problem) = response.extensions().get::<Problem>() {
        record.problem(&problem.message);
    }
    record.status(response.status());
    let mut response = written(&path, response);
    app.origins.mark(&headers, &mut response);
    response.map(|body| Body::new(Watched { body, _held: (record, flight) }))
}

/// Whether a request goes on to its handler, or is answered at once.
fn admit(app: &App, method: &Method, path: &str, headers: &HeaderMap) -> Result<Option<Response>, Problem> {
    app.origins.check(method, headers)?;
    if let Some(response) = app.origins.preflight(method, headers) {
        return Ok(Some(response));
    }
    if !is_open(path) {
        app.keys.check(headers)?;
    }
    if app.is_closing() && *method == Method::POST {
        return Err(Problem::closing());
    }
    Ok(None)
}

/// No such path.
pub async fn not_found(request: Request) -> Problem {
    let message = format!("there is no {} {} here", request.method(), request.uri().path());
    Problem::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// A path that is asked otherwise.
pub async fn wrong_method(request: Request) -> Problem {
    let message = format!("{} is not asked with {}", request.uri().path(), request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// A body with what is held until it is sent or dropped: the record of its request.
struct Watched {
    body: Body,
    _held: (Arc<Record>, Arc<()>),
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use serde_json::Value;

    use super::*;
    use crate::metrics::Metrics;
    use crate::registry::{Loader, Registry};

    struct Nothing;

    impl Loader for Nothing {
        fn load(&self, _: &str) -> Result<crate::Parts, Box<dyn std::error::Error + Send + Sync>> {
            Err("nothing can be loaded".into())
        }
    }

    fn app() -> Arc<App> {
        let log: crate::Log = Arc::new(|_| ());
        let models = Arc::new(Registry::new(Vec::new(), Arc::new(Nothing), log.clone()));
        Arc::new(App {
            metrics: Arc::new(Metrics::new(models.clone())),
            models,
            history: Default::default(),
            limits: Default::default(),
            keys: Default::default(),
            origins: Default::default(),
            log,
            logs_prompts: false,
            deadline: None,
            flights: Arc::new(()),
            closing: AtomicBool::new(false),
        })
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_of_its_request_alone() {
        let app = app();
        let panics = || async { if true { panic!("told to") } else { "" } };
        let router = Router::new()
            .route("/panics", get(panics))
            .route("/works", get(|| async { "fine" }))
            .layer(from_fn_with_state(app.clone(), around));
        let service = TowerToHyperService::new(router);
        let ask = |path: &str| service.call(Request::get(path).body(Body::empty()).unwrap());
        let response = ask("/panics").await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(app.in_flight(), 1);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["error"]["type"], "server_error");
        assert!(!problem["error"]["message"].as_str().unwrap().contains("told to"));
        assert_eq!(ask("/works").await.unwrap().status(), StatusCode::OK);
        assert_eq!(app.in_flight(), 0);
    }
}
