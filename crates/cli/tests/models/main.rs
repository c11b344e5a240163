//! `gleed pull` and `gleed list` from the outside: the binary is run against a hub on this machine.

mod hub;
mod list;
mod machine;
mod selection;
mod server;
