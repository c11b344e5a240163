//! Messages and tools as Ollama's clients send them. Calls have no ids there; results come in the order of the calls, or
//! name their tool.

use crate::answer::{Call, Message, Tool};
use crate::api::fields::{Field, Fields};
use crate::api::openai::conversation::{schema, tool_name};
use crate::api::openai::messages::arguments;
use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

const ROLES: [(&str, &str); 4] =
    [("system", "system"), ("user", "user"), ("assistant", "assistant"), ("tool", "tool")];

/// All messages of a chat; there may be none.
pub fn messages(field: Option<Field>, most: usize) -> Result<Vec<Message>> {
    let Some(field) = field else { return Ok(Vec::new()) };
    if field.value.as_array().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let mut messages = Vec::new();
    // Calls that have no result yet.
    let mut open: Vec<(String, String)> = Vec::new();
    let mut count = 0;
    for field in field.short_list(most)? {
        let mut fields = field.object()?;
        let role = fields.require("role")?.word(&ROLES)?;
        let mut message =
            Message { role, content: fields.string("content")?.unwrap_or_default(), ..Message::default() };
        no_images(&mut fields)?;
        match role {
            "assistant" => {
                message.reasoning = fields.string("thinking")?;
                if let Some(calls) = fields.take("tool_calls") {
                    let read = |field| {
                        count += 1;
                        call(field, count)
                    };
                    message.calls = calls.list()?.into_iter().map(read).collect::<Result<_>>()?;
                }
                open = message.calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
                fields.pass_over(&["tool_name"]);
            }
            "tool" => {
                let name = fields.string("tool_name")?;
                let id = fields.string("tool_call_id")?;
                let fits = |(other, tool): &(String, String)| match (&id, &name) {
                    (Some(id), _) => other == id,
                    (None, Some(name)) => tool == name,
                    (None, None) => true,
                };
                let place = open.iter().position(fits).ok_or_else(|| {
                    let path = fields.path("role");
                    let message = format!("`{path}`: no call before it waits for this result");
                    Problem::invalid(path, message)
                })?;
                let (id, name) = open.remove(place);
                (message.call_id, message.name) = (Some(id), Some(name));
            }
            _ => {}
        }
        fields.finish()?;
        messages.push(message);
    }
    Ok(messages)
}

/// Refuses images; an empty list of them is none.
pub fn no_images(fields: &mut Fields) -> Result<()> {
    match fields.take("images") {
        Some(field) if !field.clone().list()?.is_empty() => {
            let message = format!("`{}` is not supported, only text is", field.path);
            Err(Problem::unsupported(field.path, message))
        }
        _ => Ok(()),
    }
}

fn call(field: Field, number: usize) -> Result<Call> {
    let mut fields = field.object()?;
    let id = fields.string("id")?.unwrap_or_else(|| format!("call_{number}"));
    if let Some(kind) = fields.take("type") {
        kind.word(&[("function", ())])?;
    }
    let mut function = fields.require("function")?.object()?;
    function.pass_over(&["index"]);
    let call = Call {
        id,
        name: function.require("name")?.string()?,
        arguments: arguments(function.require("arguments")?)?,
    };
    function.finish()?;
    fields.finish()?;
    Ok(call)
}

/// A tool. Ollama's own client leaves out its type.
pub fn tool(field: Field) -> Result<Tool> {
    let mut fields = field.object()?;
    if let Some(kind) = fields.take("type") {
        kind.word(&[("function", ())])?;
    }
    let mut function = fields.require("function")?.object()?;
    let tool = Tool {
        name: tool_name(function.require("name")?)?,
        description: function.string("description")?,
        parameters: function.take("parameters").map(schema).transpose()?,
    };
    function.finish()?;
    fields.finish()?;
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<Vec<Message>> {
        messages(Some(Field { path: "messages".to_string(), value }), 100)
    }

    #[test]
    fn results_find_their_calls() {
        let call = |name: &str| json!({ "function": { "name": name, "arguments": { "x": 1 } } });
        let calls = json!({ "role": "assistant", "tool_calls": [call("f"), call("g"), call("f")] });
        let result = |name: Option<&str>| json!({ "role": "tool", "content": "1", "tool_name": name });
        let found = read(json!([calls, result(Some("g")), result(None), result(Some("f"))])).unwrap();
        let ids: Vec<_> = found[1..].iter().map(|message| message.call_id.as_deref()).collect();
        assert_eq!(ids, [Some("call_2"), Some("call_1"), Some("call_3")]);
        let one_more = json!([calls, result(Some("g")), result(Some("g"))]);
        assert_eq!(read(one_more).unwrap_err().param.as_deref(), Some("messages[2].role"));
    }
}
