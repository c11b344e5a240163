//! `keep_alive`, and requests that only want a model to be loaded.
//!
//! When models are unloaded is the operator's choice, since others may use them; what a client wishes is checked and
//! changes nothing.

use serde_json::{Value, json};

use super::{Times, nanoseconds, timestamp};
use crate::api::fields::Fields;
use crate::errors::Problem;
use crate::model::Model;

/// Reads `keep_alive`: seconds, or a duration such as `5m`. Returns whether the model should go at once.
pub fn read(fields: &mut Fields) -> Result<bool, Problem> {
    let Some(field) = fields.take("keep_alive") else { return Ok(false) };
    let found = match &field.value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => seconds(text),
        _ => None,
    };
    Ok(found.ok_or_else(|| field.wrong("seconds, or a duration such as `5m`"))? == 0.0)
}

/// The seconds of a duration: `90`, `-1`, `1h30m`.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += number * unit;
        rest = &rest[end..];
    }
    Some(sum)
}

/// The answer to a request that asks nothing, by which Ollama's clients have a model loaded.
pub fn loaded(model: &Model, times: Times, unloads: bool, empty: Value) -> Result<Value, Problem> {
    if unloads {
        let message = "a model is unloaded when nobody uses it, not on request; leave `keep_alive` out";
        return Err(Problem::unsupported("keep_alive", message));
    }
    let mut answer = json!({
        "model": model.id,
        "created_at": timestamp(),
        "done": true,
        "done_reason": "load",
        "total_duration": nanoseconds(times.began.elapsed()),
        "load_duration": nanoseconds(times.load),
    });
    if let (Value::Object(answer), Value::Object(empty)) = (&mut answer, empty) {
        answer.extend(empty);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [("5m", 300.0), ("1h30m", 5400.0), ("90", 90.0), ("0s", 0.0), ("-1", -1.0)] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        assert_eq!(seconds("1.5s"), Some(1.5));
        for text in ["", "m", "5 m", "5x", "forever", "-"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
