//! What an answer of OpenAI's API says: the pieces of a stream, and what a whole one brings to be compared.

use serde::Serialize;
use serde_json::Value;

use super::client::error_message;
use super::error::Failure;

/// How many tokens a request took, as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the answer.
    pub completion_tokens: u64,
    /// Of the prompt, those that were in the server's cache, where it says so.
    pub cached_tokens: Option<u64>,
}

impl Usage {
    /// The usage in an answer or in a piece of one.
    pub fn of(answer: &Value) -> Option<Usage> {
        let usage = answer.get("usage").filter(|usage| usage.is_object())?;
        let cached = &usage["prompt_tokens_details"]["cached_tokens"];
        Some(Usage {
            prompt_tokens: usage["prompt_tokens"].as_u64()?,
            completion_tokens: usage["completion_tokens"].as_u64().unwrap_or(0),
            cached_tokens: cached.as_u64(),
        })
    }
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Piece {
    /// Whether there is any text of the answer in it, of reasoning or of a call.
    pub has_text: bool,
    /// Whether it says that the answer is whole.
    pub finishes: bool,
    /// What the answer took.
    pub usage: Option<Usage>,
}

/// Reads the data of an event, which is not `[DONE]`.
pub fn piece(data: &str) -> Result<Piece, Failure> {
    let event: Value = serde_json::from_str(data)
        .map_err(|error| Failure::NotUnderstood(format!("an event is not JSON: {error}")))?;
    if let Some(message) = error_message(&event) {
        return Err(Failure::InStream(message));
    }
    let choices = event.get("choices").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has_text = choices.iter().any(|choice| {
        let delta = &choice["delta"];
        let texts = [&choice["text"], &delta["content"], &delta["reasoning_content"], &delta["reasoning"]];
        let calls = delta["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        calls || texts.iter().any(|text| text.as_str().is_some_and(|text| !text.is_empty()))
    });
    let finishes = choices.iter().any(|choice| choice["finish_reason"].is_string());
    Ok(Piece { has_text, finishes, usage: Usage::of(&event) })
}

/// What is compared of a whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The text, the reasoning, the calls without their identifiers, and how it ended, as one text.
    pub text: String,
    /// The log-probabilities as the server wrote them; null where it gives none.
    pub log_probabilities: Value,
    /// What it took.
    pub usage: Option<Usage>,
}

/// Reads a whole answer with one choice.
pub fn said(answer: &Value) -> Result<Said, Failure> {
    if let Some(message) = error_message(answer) {
        return Err(Failure::InStream(message));
    }
    let choice = answer.get("choices").and_then(|choices| choices.get(0));
    let choice = choice.ok_or_else(|| Failure::NotUnderstood("the answer has no choices".to_string()))?;
    let message = &choice["message"];
    let mut text = String::new();
    for part in [&message["reasoning_content"], &message["reasoning"], &message["content"], &choice["text"]] {
        text.push_str(part.as_str().unwrap_or_default());
    }
    for call in message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice) {
        let part = |name: &str| call["function"][name].as_str().unwrap_or_default();
        text.push_str(&format!("\n{}({})", part("name"), part("arguments")));
    }
    text.push_str(&format!("\n[{}]", choice["finish_reason"].as_str().unwrap_or_default()));
    Ok(Said { text, log_probabilities: choice["logprobs"].clone(), usage: Usage::of(answer) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_of_both_apis() {
        let found = |value: Value| piece(&value.to_string()).unwrap();
        let plain = Piece::default();
        let text = Piece { has_text: true, ..Piece::default() };
        assert_eq!(found(json!({"choices": [{"text": "a", "finish_reason": null}]})), text);
        assert_eq!(found(json!({"choices": [{"delta": {"content": "a"}}]})), text);
        assert_eq!(found(json!({"choices": [{"delta": {"reasoning_content": "a"}}]})), text);
        assert_eq!(found(json!({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]})), text);
        assert_eq!(found(json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]})), plain);
        let last = found(json!({"choices": [{"text": "", "finish_reason": "length"}]}));
        assert_eq!(last, Piece { finishes: true, ..Piece::default() });
        let details = json!({"cached_tokens": 64});
        let usage = json!({"prompt_tokens": 70, "completion_tokens": 3, "prompt_tokens_details": details});
        let usage = found(json!({"choices": [], "usage": usage})).usage.unwrap();
        assert_eq!(usage, Usage { prompt_tokens: 70, completion_tokens: 3, cached_tokens: Some(64) });
        assert_eq!(found(json!({"choices": [], "usage": null})), plain);
    }

    #[test]
    fn what_is_no_piece() {
        assert!(matches!(piece("{"), Err(Failure::NotUnderstood(_))));
        let error = piece(&json!({"error": {"message": "stopped"}}).to_string());
        assert_eq!(error, Err(Failure::InStream("stopped".to_string())));
    }

    #[test]
    fn identifiers_of_calls_are_not_compared_and_all_else_is() {
        let answer = |id: &str, arguments: &str| {
            let call = json!({"id": id, "function": {"name": "f", "arguments": arguments}});
            said(&json!({"choices": [{"message": {"content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}))
                .unwrap()
        };
        assert_eq!(answer("a", "{}"), answer("b", "{}"));
        assert_ne!(answer("a", "{}"), answer("a", "{ }"));
        let text = |text: &str, reason: &str| {
            said(&json!({"choices": [{"text": text, "finish_reason": reason}]})).unwrap()
        };
        assert_ne!(text("a", "stop"), text("a", "length"));
        assert!(said(&json!({"choices": []})).is_err());
    }
}
