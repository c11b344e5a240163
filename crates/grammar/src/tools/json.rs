//! Calls as JSON objects: `{"name": "…", "arguments": {…}}`, alone or in a list.

use gleed_tokenizer::marks::JsonCalls;
use serde_json::{Map, Value, json};

use super::writer::{Writer, sequence};
use super::{Callable, Form, Mark, repeated};
use crate::lark::literal;
use crate::schema;

/// The names of keys that families use, for the name and for the arguments.
const KEYS: [(&str, &str); 3] = [("name", "arguments"), ("name", "parameters"), ("tool_name", "parameters")];
/// What a call without a mark may begin with: any of its keys.
const ANY_KEY: &str = "(name|tool_name|id|tool_call_id|arguments|parameters)";

pub fn write(writer: &mut Writer, calls: &JsonCalls<Mark>, tools: &[Callable], parallel: bool) -> Form {
    let mut definitions = Map::new();
    for tool in tools {
        definitions.insert(tool.prefix.clone(), tool.root.clone());
        definitions.extend(tool.definitions.clone());
    }
    let objects: Vec<Value> = match calls.keyed {
        true => tools.iter().map(keyed).collect(),
        false => KEYS.iter().flat_map(|keys| tools.iter().map(move |tool| object(tool, keys))).collect(),
    };
    definitions.insert("call".to_string(), json!({"anyOf": objects}));
    let call = json!({"$ref": "#/$defs/call"});
    let most = if parallel { json!({}) } else { json!({"maxItems": 1}) };
    let mut list = json!({"type": "array", "items": call, "minItems": 1});
    if let (Value::Object(list), Value::Object(most)) = (&mut list, most) {
        list.extend(most);
    }
    let either = json!({"anyOf": [call, list]});
    writer.rule("json", &format!("%json {}", schema::document(either, definitions)));
    let close = sequence(&calls.region.close);
    let call = format!("SPACE? json SPACE? {close}");
    // Without a closing mark nothing says where one list ends and the next begins.
    let called = repeated(&calls.region.open, &call, parallel && !close.is_empty());
    let mut form = Form::new(&calls.region.open, called);
    if calls.bare {
        form.bare = bare(writer, tools, parallel);
        form.bare_head = format!("\\s*\\{{\\s*\"{ANY_KEY}\"");
    }
    form
}

/// `{"name": {arguments}}`
fn keyed(tool: &Callable) -> Value {
    let arguments = json!({"$ref": format!("#/$defs/{}", tool.prefix)});
    json!({
        "type": "object",
        "properties": {&tool.name: arguments},
        "required": [&tool.name],
        "additionalProperties": false,
    })
}

fn object(tool: &Callable, (name, arguments): &(&str, &str)) -> Value {
    let mut properties = Map::new();
    if *name == "tool_name" {
        properties.insert("tool_call_id".to_string(), json!({"type": "string", "maxLength": 64}));
    }
    properties.insert(name.to_string(), json!({"const": tool.name}));
    properties.insert(arguments.to_string(), json!({"$ref": format!("#/$defs/{}", tool.prefix)}));
    if *arguments == "arguments" {
        properties.insert("id".to_string(), json!({"type": "string", "maxLength": 64}));
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": [name, arguments],
        "additionalProperties": false,
    })
}

/// Calls without a mark, in which words must be seen to end: the beginning of each is one terminal.
fn bare(writer: &mut Writer, tools: &[Callable], parallel: bool) -> String {
    let mut calls = Vec::new();
    for tool in tools {
        let head = format!("{}HEAD", tool.prefix.to_uppercase());
        let name = literal(&serde_json::Value::from(tool.name.as_str()).to_string());
        let space = "[ \\n]{0,2}";
        writer.rule(
            &head,
            &format!(
                "/{space}\\{{{space}\"name\"{space}:{space}{name}{space},{space}\"(parameters|arguments)\"{space}:{space}/"
            ),
        );
        calls.push(format!("{head} {} SPACE? \"}}\"", tool.arguments(writer)));
    }
    writer.rule("bare", &calls.join(" | "));
    if parallel { "bare (/;[ \\n]?/ bare)*" } else { "bare" }.to_string()
}
