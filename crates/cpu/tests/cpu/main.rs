//! The tests of this crate in one binary, but for the one that counts what is allocated.

mod adapters;
mod attention;
mod common;
mod encoders;
mod executor;
mod integers;
mod joined;
mod kernels;
mod numbers;
mod packed;
mod pages;
mod promise;
mod recur;
mod streams;
