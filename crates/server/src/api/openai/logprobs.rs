//! Log-probabilities of tokens, as chats and completions tell them.

use gleed_engine::Token;
use gleed_tokenizer::Tokenizer;
use serde_json::{Value, json};

/// The entry of a token in a chat's `logprobs.content`.
pub fn of_chat(token: &Token, tokenizer: &Tokenizer) -> Value {
    let mut entry = one(token.id, token.logprob.unwrap_or_default(), tokenizer);
    let top: Vec<Value> = token.top.iter().map(|top| one(top.token, top.logprob, tokenizer)).collect();
    entry["top_logprobs"] = top.into();
    entry
}

fn one(token: u32, logprob: f32, tokenizer: &Tokenizer) -> Value {
    let bytes = tokenizer.token_bytes(token).unwrap_or_default();
    json!({
        "token": String::from_utf8_lossy(&bytes),
        "logprob": finite(logprob),
        "bytes": bytes.as_ref(),
    })
}

/// A number that JSON can write; OpenAI's word for "never".
pub fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}
