//! The network: an HTTP server in front of engines, with the OpenAI API and others, metrics and a page.
//!
//! Every API is a thin translation: a request becomes a conversation or a text, the core in
//! `answer` asks the engine and gives a stream of parts, and the API writes them in its own words. Handlers talk to
//! engines through channels, engines run on threads of their own, and whatever is heavy (templates, grammars, loading)
//! runs on threads for such work.
//!
//! [`run`] serves until it is told to stop. Models come from a [`Loader`], lines for the operator go to a
//! [`Log`]: the library itself opens no files but a certificate's and prints nothing.

mod adapters;
mod answer;
mod api;
mod app;
mod arrival;
mod auth;
mod connections;
mod errors;
mod health;
mod ids;
mod layers;
mod limits;
mod log;
mod metrics;
mod model;
mod origin;
mod page;
mod patience;
mod registry;
mod serve;
mod signals;
mod sse;
mod status;
mod tls;

pub use auth::Keys;
pub use limits::Limits;
pub use log::Log;
pub use model::Parts;
pub use registry::{Loader, Offer};
pub use serve::{Error, Settings, run, serve};
pub use tls::Tls;

use app::App;
