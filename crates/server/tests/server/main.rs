//! The server over real connections, with requests written byte by byte.

mod answers;
mod anthropic;
mod company;
mod description;
mod dialects;
mod doors;
mod forms;
mod harness;
mod http;
mod lora;
mod numbers;
mod ollama;
mod refusals;
mod responses;
