//! Where do models come from? What a name means, where its file lies, and how it comes here.
//!
//! A name is a path if something exists there, a model of the hub if it starts with `hf:`, and otherwise a
//! name of the [`catalogue`]. [`find`] says which, [`locate`] answers with a file that is ready to be opened,
//! [`offer`] says what it would take to have it here, [`pull`] brings it here, [`remove`] takes it away. Nothing is printed: what a
//! pull has to tell goes to its [`Watch`].
//!
//! ```no_run
//! use gleed_hub::{Cache, Source, find, pull};
//!
//! let model = find("smollm2-135m")?;
//! let pulled = pull(&model, &Cache::locate()?, &|event| eprintln!("{event:?}"))?;
//! if let Source::Path(path) = pulled.source {
//!     println!("{}", path.display());
//! }
//! # Ok::<(), gleed_hub::Error>(())
//! ```

pub mod catalogue;

mod address;
mod archive;
mod cache;
mod download;
mod embedded;
mod endpoint;
mod error;
mod event;
mod held;
mod listing;
mod name;
mod packages;
mod partial;
mod pull;
mod reference;
mod remove;
mod repository;
mod request;
mod selection;

pub use cache::Cache;
pub use embedded::{EMBEDDED_NAME, embedded, embedded_bytes};
pub use error::{Error, Refusal, Result};
pub use event::{Event, Outcome, Step, Warning, Watch};
pub use held::{Held, held};
pub use name::{Named, find, find_model};
pub use partial::is_begun;
pub use pull::{Offer, Pulled, Source, locate, offer, pull};
pub use reference::Reference;
pub use remove::{removable, remove};
pub use repository::Repository;
pub use selection::{PREFERENCE, Selection};
