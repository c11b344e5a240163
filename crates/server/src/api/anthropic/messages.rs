//! Messages made of blocks. A block with a tool's result becomes a message of that tool.

use crate::answer::{Call, Message};
use crate::api::fields::{Field, Fields};
use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

const ROLES: [(&str, &str); 3] = [("user", "user"), ("assistant", "assistant"), ("system", "system")];

/// The text of `system`, a string or blocks.
pub fn system(field: Field) -> Result<String> {
    let blocks = blocks(field)?.into_iter().map(|block| match block {
        Block::Text(text) => Ok(text),
        other => Err(other.misplaced("a system prompt")),
    });
    Ok(blocks.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// All messages, the system prompt first.
pub fn messages(system: Option<String>, field: Field, most: usize) -> Result<Vec<Message>> {
    let list = field.short_list(most)?;
    let last = list.len() - 1;
    let mut messages = Vec::new();
    messages.extend(system.map(|content| Message { role: "system", content, ..Message::default() }));
    for (index, field) in list.into_iter().enumerate() {
        let path = field.path.clone();
        let mut fields = field.object()?;
        let role = fields.require("role")?.word(&ROLES)?;
        let blocks = blocks(fields.require("content")?)?;
        fields.finish()?;
        match role {
            "assistant" => assistant(&mut messages, blocks)?,
            _ => others(&mut messages, role, blocks)?,
        }
        let unfinished = |message: &Message| !message.calls.is_empty() || message.reasoning.is_some();
        if index == last && role == "assistant" && messages.last().is_some_and(unfinished) {
            let message =
                format!("`{path}`: a last message of the assistant is continued; it may only have text");
            return Err(Problem::invalid(path, message));
        }
    }
    Ok(messages)
}

/// Adds a turn of the model; two that follow each other are one.
fn assistant(messages: &mut Vec<Message>, blocks: Vec<Block>) -> Result<()> {
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(Message { role: "assistant", ..Message::default() });
    }
    let Some(turn) = messages.last_mut() else { return Ok(()) };
    for block in blocks {
        match block {
            Block::Text(text) => join(&mut turn.content, &text),
            Block::Thinking(text) => join(turn.reasoning.get_or_insert_default(), &text),
            Block::Call(call) => turn.calls.push(call),
            other => return Err(other.misplaced("a message of the assistant")),
        }
    }
    Ok(())
}

/// Adds a turn of the user, or of the system.
fn others(messages: &mut Vec<Message>, role: &'static str, blocks: Vec<Block>) -> Result<()> {
    if blocks.is_empty() {
        messages.push(Message { role, ..Message::default() });
    }
    for block in blocks {
        match block {
            Block::Text(text) => match messages.last_mut().filter(|last| last.role == role) {
                Some(last) => join(&mut last.content, &text),
                None => messages.push(Message { role, content: text, ..Message::default() }),
            },
            Block::Result { path, id, content } if role == "user" => {
                let name = Message::tool_of_call(messages, &id).map(str::to_string).ok_or_else(|| {
                    let message = format!("`{path}`: no `tool_use` block before it has the id `{id}`");
                    Problem::invalid(&path, message)
                })?;
                let (call_id, name) = (Some(id), Some(name));
                messages.push(Message { role: "tool", content, call_id, name, ..Message::default() });
            }
            other => return Err(other.misplaced("a message of the user")),
        }
    }
    Ok(())
}

/// Texts of one turn are lines.
fn join(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// A block of a message.
enum Block {
    Text(String),
    Thinking(String),
    Call(Call),
    Result { path: String, id: String, content: String },
}

impl Block {
    fn misplaced(&self, place: &str) -> Problem {
        let kind = match self {
            Block::Text(_) => "text",
            Block::Thinking(_) => "thinking",
            Block::Call(_) => "tool_use",
            Block::Result { .. } => "tool_result",
        };
        Problem::invalid("messages", format!("a `{kind}` block cannot be in {place}"))
    }
}

/// A content: a string or blocks.
fn blocks(field: Field) -> Result<Vec<Block>> {
    if field.value.is_string() {
        return Ok(vec![Block::Text(field.string()?)]);
    }
    if !field.value.is_array() {
        return Err(field.wrong("a string or a list of blocks"));
    }
    field.list()?.into_iter().map(block).collect()
}

fn block(field: Field) -> Result<Block> {
    let mut fields = field.object()?;
    let kind = fields.require("type")?;
    let path = kind.path.clone();
    let kind = kind.string()?;
    fields.pass_over(&["cache_control"]);
    let block = match kind.as_str() {
        "text" => {
            fields.refuse("citations", "sources are not cited here")?;
            Block::Text(fields.require("text")?.string()?)
        }
        "thinking" => {
            // Nothing is signed here, so that there is nothing to check.
            fields.string("signature")?;
            Block::Thinking(fields.require("thinking")?.string()?)
        }
        "tool_use" => {
            if let Some(caller) = fields.take("caller") {
                let mut caller = caller.object()?;
                caller.require("type")?.word(&[("direct", ())])?;
                caller.finish()?;
            }
            fields.refuse("toolset_name", "there are no sets of tools here")?;
            let input = fields.require("input")?;
            if !input.value.is_object() {
                return Err(input.wrong("an object"));
            }
            Block::Call(Call {
                id: fields.require("id")?.string()?,
                name: fields.require("name")?.string()?,
                arguments: input.value,
            })
        }
        "tool_result" => result(&mut fields)?,
        _ => {
            let message = format!("blocks of type `{kind}` are not supported");
            return Err(Problem::unsupported(path, message));
        }
    };
    fields.finish()?;
    Ok(block)
}

fn result(fields: &mut Fields) -> Result<Block> {
    let id = fields.require("tool_use_id")?;
    let path = id.path.clone();
    let id = id.string()?;
    fields.refuse("toolset_name", "there are no sets of tools here")?;
    let is_error = fields.boolean("is_error")?.unwrap_or(false);
    let found = match fields.take("content") {
        Some(content) => blocks(content)?,
        None => Vec::new(),
    };
    // Templates have no other place to say so.
    let mut content = if is_error { "Error:".to_string() } else { String::new() };
    for block in found {
        match block {
            Block::Text(text) => join(&mut content, &text),
            other => return Err(other.misplaced("a `tool_result` block")),
        }
    }
    Ok(Block::Result { path, id, content })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<Vec<Message>> {
        messages(None, Field { path: "messages".to_string(), value }, 100)
    }

    #[test]
    fn blocks_become_turns() {
        let found = read(json!([
            { "role": "user", "content": "one" },
            { "role": "user", "content": [{ "type": "text", "text": "two" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "" },
                { "type": "text", "text": "three" },
                { "type": "tool_use", "id": "a", "name": "f", "input": { "x": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": true },
                { "type": "text", "text": "four" },
            ] },
        ]));
        let found = found.unwrap();
        let spoken: Vec<_> = found.iter().map(|m| (m.role, m.content.as_str())).collect();
        assert_eq!(
            spoken,
            [("user", "one\ntwo"), ("assistant", "three"), ("tool", "Error:\nno"), ("user", "four")]
        );
        assert_eq!(found[1].reasoning.as_deref(), Some("hm"));
        assert_eq!(found[1].calls[0].arguments, json!({ "x": 1 }));
        assert_eq!((found[2].name.as_deref(), found[2].call_id.as_deref()), (Some("f"), Some("a")));
    }
}
