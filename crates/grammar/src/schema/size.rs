//! How large a schema is, found without recursion: what is nested too deeply must not be followed.

use serde_json::Value;

use crate::{Result, limits};

/// Refuses a schema that is too large or nested too deeply.
pub fn check(schema: &Value) -> Result<()> {
    let mut bytes = 0usize;
    let mut open: Vec<(&Value, usize)> = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        limits::check("levels of nesting in the JSON schema", depth, limits::SCHEMA_DEPTH)?;
        bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Object(fields) => 2 + fields.keys().map(|key| key.len() + 4).sum::<usize>(),
            Value::Array(items) => 2 + items.len(),
            _ => 4,
        };
        limits::check("bytes of the JSON schema", bytes, limits::SCHEMA_BYTES)?;
        match value {
            Value::Object(fields) => open.extend(fields.values().map(|value| (value, depth + 1))),
            Value::Array(items) => open.extend(items.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}
