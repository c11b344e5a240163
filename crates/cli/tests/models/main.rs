//! Models by name from the outside: the binary is run against a hub on this machine.

mod fetch;
mod hub;
mod list;
mod machine;
mod remove;
mod selection;
mod server;
