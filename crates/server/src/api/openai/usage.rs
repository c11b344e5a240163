//! What a request took, and why answers ended, in OpenAI's words.

use serde_json::{Value, json};

use crate::answer::{Ending, Usage};

/// The `usage` object.
pub fn usage(usage: Usage) -> Value {
    let Usage { prompt, cached, completion, reasoning } = usage;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": { "reasoning_tokens": reasoning },
    })
}

/// The `finish_reason`.
pub fn finish_reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::Stop | Ending::StopString(_) => "stop",
        Ending::Calls => "tool_calls",
        // An answer whose time is over is cut as one that is too long.
        Ending::Length | Ending::Deadline => "length",
    }
}
