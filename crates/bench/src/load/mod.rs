//! Load on a server that speaks OpenAI's API, of whatever make: how much it gets done, how long its answers take, and
//! whether they are the same among many others as they are alone.
//!
//! A [`Plan`] says what is sent and when ([`Arrivals`], [`Workload`] or a [`Trace`]); [`measure`] sends it in rounds to
//! one server or to two in turn and returns a [`Level`] for each load. [`same_bytes`] compares answers. What a server
//! can do is asked first ([`Known::of`]).

mod answer;
mod arrivals;
mod client;
mod error;
mod events;
mod lengths;
mod percentiles;
mod probe;
mod prompts;
mod report;
mod rounds;
mod same;
mod sender;
mod trace;
mod workload;

pub use arrivals::{Arrivals, MOST_OPEN};
pub use client::Server;
pub use error::{Error, Failure, Result};
pub use lengths::Lengths;
pub use percentiles::Percentiles;
pub use probe::Known;
pub use prompts::Measure;
pub use report::{LATE, Level, Loaded, Ratios};
pub use rounds::{Measured, Plan, Side, measure};
pub use same::{Compared, Difference, Same, SameSettings, same_bytes};
pub use sender::Until;
pub use trace::{Trace, record};
pub use workload::{Ask, Manner, Workload};
