//! Many answers at once.

mod request;
mod status;

pub use request::{Listener, Refusal, Request, Update};
pub use status::Status;
