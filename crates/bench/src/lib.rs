//! How fast is a model on this machine, where does the time go, how far is that from what the machine can do,
//! and how does it compare with a peer?
//!
//! A [`Test`] says what is measured. [`rounds()`] runs tests on an executor ([`Runner`]) in turn with a
//! [`Peer`] and with the machine's limits ([`Meter`]); [`profile`] says where the time of each goes;
//! [`kernels()`] times each linear kernel by itself; [`start()`] times whole processes; [`guesses()`] says what
//! guessing the next tokens gains; [`load`] measures servers. All of them return data: tables and progress bars are
//! the caller's, who is told how far a measurement is by a [`Progress`].

mod child;
mod error;
mod guesses;
mod kernels;
mod limits;
pub mod load;
mod measurable;
mod ops;
mod peer;
mod plot;
mod report;
mod rounds;
mod runner;
mod spread;
mod start;
mod test;
mod work;

pub use error::{Error, Result};
pub use guesses::{GuessGain, GuessText, guesses};
pub use kernels::{KernelTime, kernels};
pub use limits::{Limits, Machine, Meter};
pub use measurable::Measurable;
pub use ops::{OpTime, Profile, profile};
pub use peer::Peer;
pub use plot::{load_curves, roofline};
pub use report::{Measured, Rates};
pub use rounds::{Rounds, Settings, rounds};
pub use runner::{MAX_ROWS, Runner, positions_of, slots_of};
pub use spread::Spread;
pub use start::{CONTEXT, PROMPT, Side, Start, TOKENS, start};
pub use test::Test;
pub use work::Work;

/// Is told how far a measurement is: steps done, steps in all, and what is measured now.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);
