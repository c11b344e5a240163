//! Messages of a chat, read field by field.

use serde_json::Value;

use crate::answer::{Call, Message};
use crate::api::fields::{Field, Fields};
use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

const ROLES: [(&str, &str); 5] = [
    ("system", "system"),
    ("developer", "developer"),
    ("user", "user"),
    ("assistant", "assistant"),
    ("tool", "tool"),
];

/// All messages of a chat, of which there must be one.
pub fn messages(field: Field, most: usize) -> Result<Vec<Message>> {
    field.short_list(most)?.into_iter().map(message).collect()
}

fn message(field: Field) -> Result<Message> {
    let mut fields = field.object()?;
    let role = fields.require("role")?.word(&ROLES)?;
    let mut message = Message { role, name: fields.string("name")?, ..Message::default() };
    match role {
        "assistant" => {
            message.reasoning = match fields.string("reasoning_content")? {
                Some(reasoning) => Some(reasoning),
                None => fields.string("reasoning")?,
            };
            fields.refuse("audio", "there is no sound here")?;
            fields.refuse("function_call", "use `tool_calls`")?;
            // What a model refused to say is what it said.
            let refusal = fields.string("refusal")?;
            fields.pass_over(&["annotations"]);
            if let Some(calls) = fields.take("tool_calls") {
                message.calls = calls.list()?.into_iter().map(call).collect::<Result<_>>()?;
            }
            let content =
                fields.take("content").map(|field| content(field, &["text", "refusal"])).transpose()?;
            if content.is_none()
                && refusal.is_none()
                && message.calls.is_empty()
                && message.reasoning.is_none()
            {
                return Err(missing(&fields));
            }
            message.content = content.or(refusal).unwrap_or_default();
        }
        _ => {
            if role == "tool" {
                message.call_id = Some(fields.require("tool_call_id")?.string()?);
            }
            let found = fields.take("content").ok_or_else(|| missing(&fields))?;
            message.content = content(found, &["text"])?;
        }
    }
    fields.finish()?;
    Ok(message)
}

fn missing(fields: &Fields) -> Problem {
    let path = fields.path("content");
    Problem {
        code: Some("missing_required_parameter"),
        ..Problem::invalid(&path, format!("`{path}` is missing"))
    }
}

/// The text of a message: a string, or parts of text, which become lines.
fn content(field: Field, kinds: &[&str]) -> Result<String> {
    if field.value.is_string() {
        return field.string();
    }
    if !field.value.is_array() {
        return Err(field.wrong("a string or a list of parts"));
    }
    let part = |field: Field| {
        let mut fields = field.object()?;
        let kind = fields.require("type")?;
        let path = kind.path.clone();
        let kind = kind.string()?;
        if !kinds.contains(&kind.as_str()) {
            let message = format!("parts of type `{kind}` are not supported, only text is");
            return Err(Problem::unsupported(path, message));
        }
        let text = fields.require(&kind)?.string()?;
        fields.finish()?;
        Ok(text)
    };
    let parts: Vec<String> = field.list()?.into_iter().map(part).collect::<Result<_>>()?;
    Ok(parts.join("\n"))
}

/// A call that an assistant made.
fn call(field: Field) -> Result<Call> {
    let mut fields = field.object()?;
    let id = fields.require("id")?.string()?;
    if let Some(kind) = fields.take("type") {
        kind.word(&[("function", ())])?;
    }
    fields.pass_over(&["index"]);
    let mut function = fields.require("function")?.object()?;
    let name = function.require("name")?.string()?;
    let arguments = arguments(function.require("arguments")?)?;
    function.finish()?;
    fields.finish()?;
    Ok(Call { id, name, arguments })
}

/// Arguments as an object, which is what templates read; they come as text that is one.
pub fn arguments(field: Field) -> Result<Value> {
    let parsed = match &field.value {
        Value::String(text) if text.trim().is_empty() => Some(Value::Object(Default::default())),
        Value::String(text) => serde_json::from_str(text).ok(),
        value => Some(value.clone()),
    };
    parsed.filter(Value::is_object).ok_or_else(|| field.wrong("a JSON object, written as a string"))
}
