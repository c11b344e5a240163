//! Messages as templates find them: what Hugging Face does to them before a template runs.

use minijinja::Value;
use minijinja::value::ValueKind;

/// The names under which a message's reasoning may come; the first is the one that most templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The messages with their reasoning under both names that templates read, whichever it came under.
pub(super) fn with_reasoning_named(messages: Value) -> Value {
    match messages.try_iter() {
        Ok(items) => items.map(message).collect(),
        Err(_) => messages,
    }
}

fn message(message: Value) -> Value {
    let field = |name: &&str| message.get_attr(name).ok().filter(|value| !value.is_undefined());
    let reasoning = REASONING.iter().filter_map(field).find(|value| !value.is_none());
    let Some(reasoning) = reasoning.filter(|_| message.kind() == ValueKind::Map) else { return message };
    let Ok(keys) = message.try_iter() else { return message };
    let has_thinking = field(&"thinking").is_some();
    let mut fields: Vec<(Value, Value)> = Vec::new();
    // The place in the order is what Python gives it, for templates that print whole messages.
    fields.extend((!has_thinking).then(|| ("thinking".into(), reasoning.clone())));
    let mut has_content = false;
    for key in keys {
        let is_content = key.as_str() == Some(REASONING[0]);
        has_content |= is_content;
        let value = if is_content { reasoning.clone() } else { message.get_item(&key).unwrap_or_default() };
        fields.push((key, value));
    }
    fields.extend((!has_content).then(|| (REASONING[0].into(), reasoning)));
    Value::from_pairs(fields)
}
