//! The server over real connections, with requests written byte by byte.

mod answers;
mod company;
mod description;
mod doors;
mod harness;
mod http;
mod numbers;
mod refusals;
