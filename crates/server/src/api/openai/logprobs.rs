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
fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}

/// The lists of a completion's `logprobs`, in OpenAI's older form.
#[derive(Default)]
pub struct Listed {
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<Value>,
    /// Characters of all tokens so far.
    written: usize,
}

impl Listed {
    /// Takes in a token, if its log-probability was asked for.
    pub fn add(&mut self, token: &Token, tokenizer: &Tokenizer) {
        let Some(logprob) = token.logprob else { return };
        let text = |token: u32| tokenizer.token_text(token).unwrap_or_default().into_owned();
        let written = text(token.id);
        let top = token.top.iter().map(|top| (text(top.token), finite(top.logprob).into()));
        self.top.push(Value::Object(top.collect()));
        self.logprobs.push(finite(logprob).into());
        self.offsets.push(self.written.into());
        self.written += written.chars().count();
        self.tokens.push(written.into());
    }

    /// What came since this was last asked; null when nothing did.
    pub fn take(&mut self) -> Value {
        if self.tokens.is_empty() {
            return Value::Null;
        }
        let [tokens, logprobs, top, offsets] =
            [&mut self.tokens, &mut self.logprobs, &mut self.top, &mut self.offsets].map(std::mem::take);
        json!({ "tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets })
    }
}
