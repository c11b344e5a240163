//! What a chat asks for beside its messages: tools, the form of the answer, reasoning.

use gleed_tokenizer::ReasoningWish;
use serde_json::Value;

use super::messages::messages;
use crate::answer::{Conversation, Form, Tool, ToolChoice};
use crate::api::fields::{Field, Fields};
use crate::errors::Problem;
use crate::limits::Limits;

type Result<T> = std::result::Result<T, Problem>;

/// Reads a conversation out of a request's fields.
pub fn conversation(fields: &mut Fields, limits: &Limits) -> Result<Conversation> {
    let messages = messages(fields.require("messages")?, limits.messages)?;
    let tools = match fields.take("tools") {
        Some(field) => tools(field, limits, tool)?,
        None => Vec::new(),
    };
    let variables = match fields.take("chat_template_kwargs") {
        Some(field) => field.object()?.rest(),
        None => Default::default(),
    };
    let continues = fields.boolean("continue_final_message")?.unwrap_or(false);
    if continues && messages.last().is_some_and(|last| last.role != "assistant" || !last.calls.is_empty()) {
        let message = "only an assistant's last message can be continued, and one without calls";
        return Err(Problem::invalid("continue_final_message", message));
    }
    Ok(Conversation {
        tool_choice: tool_choice(fields.take("tool_choice"), &tools)?,
        parallel_calls: fields.boolean("parallel_tool_calls")?.unwrap_or(true),
        form: form(fields, limits)?,
        reasoning: fields.take("reasoning_effort").map(reasoning).transpose()?,
        messages,
        tools,
        variables,
        continues,
    })
}

/// The tools of a list, read by `tool`, whose names differ.
pub fn tools(field: Field, limits: &Limits, tool: impl Fn(Field) -> Result<Tool>) -> Result<Vec<Tool>> {
    let path = field.path.clone();
    bounded(&field, limits.schema)?;
    if field.value.as_array().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let tools: Vec<Tool> = field.short_list(limits.tools)?.into_iter().map(tool).collect::<Result<_>>()?;
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|other| other.name == tool.name) {
            let path = format!("{path}[{index}]");
            return Err(Problem::invalid(&path, format!("`{path}`: two tools are called `{}`", tool.name)));
        }
    }
    Ok(tools)
}

fn tool(field: Field) -> Result<Tool> {
    let mut fields = field.object()?;
    fields.require("type")?.word(&[("function", ())])?;
    let mut function = fields.require("function")?.object()?;
    let name = function.require("name")?;
    let tool = Tool {
        name: tool_name(name)?,
        description: function.string("description")?,
        parameters: function.take("parameters").map(schema).transpose()?,
    };
    // Arguments always follow their schema here.
    function.boolean("strict")?;
    function.finish()?;
    fields.finish()?;
    Ok(tool)
}

/// A name as OpenAI allows it, with dots besides.
pub fn tool_name(field: Field) -> Result<String> {
    let path = field.path.clone();
    let name = field.string()?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_part) {
        let message = format!("`{path}` must have 1 to 64 letters, digits, dots, dashes or underscores");
        return Err(Problem::invalid(path, message));
    }
    Ok(name)
}

/// A schema: an object.
pub fn schema(field: Field) -> Result<Value> {
    if field.value.is_object() {
        Ok(field.value)
    } else {
        Err(field.wrong("a JSON schema, which is an object"))
    }
}

/// The name of one of the tools.
pub fn known_tool(field: Field, tools: &[Tool]) -> Result<String> {
    let path = field.path.clone();
    let name = field.string()?;
    if tools.iter().any(|tool| tool.name == name) {
        return Ok(name);
    }
    Err(Problem::invalid(path, format!("there is no tool `{name}` in `tools`")))
}

/// Whether tools must be called.
pub fn tool_choice(field: Option<Field>, tools: &[Tool]) -> Result<ToolChoice> {
    let Some(field) = field else { return Ok(ToolChoice::Auto) };
    let path = field.path.clone();
    let choice = match field.value {
        Value::Object(_) => {
            let mut fields = field.object()?;
            fields.require("type")?.word(&[("function", ())])?;
            let mut function = fields.require("function")?.object()?;
            let name = known_tool(function.require("name")?, tools)?;
            function.finish()?;
            fields.finish()?;
            ToolChoice::Named(name)
        }
        _ => match field.word(&[("auto", 0), ("none", 1), ("required", 2)])? {
            0 => ToolChoice::Auto,
            1 => ToolChoice::None,
            _ => ToolChoice::Required,
        },
    };
    if tools.is_empty() && choice != ToolChoice::None && choice != ToolChoice::Auto {
        return Err(Problem::invalid(path, "`tool_choice` needs `tools`"));
    }
    Ok(choice)
}

/// The form of the answer: `response_format`, or one of the extensions `regex` and `grammar`.
pub fn form(fields: &mut Fields, limits: &Limits) -> Result<Form> {
    let mut forms = Vec::new();
    if let Some(field) = fields.take("response_format") {
        bounded(&field, limits.schema)?;
        forms.extend(Some(response_format(field)?).filter(|form| *form != Form::Text));
    }
    for (name, form) in [("regex", Form::Regex as fn(String) -> Form), ("grammar", Form::Grammar)] {
        if let Some(field) = fields.take(name) {
            bounded(&field, limits.schema)?;
            forms.push(form(field.string()?));
        }
    }
    match forms.len() {
        0 => Ok(Form::Text),
        1 => Ok(forms.remove(0)),
        _ => Err(Problem::invalid(
            "response_format",
            "an answer has one form: send one of `response_format`, `regex` and `grammar`",
        )),
    }
}

fn response_format(field: Field) -> Result<Form> {
    let mut fields = field.object()?;
    let form = match fields.require("type")?.word(&[("text", 0), ("json_object", 1), ("json_schema", 2)])? {
        0 => Form::Text,
        1 => Form::Json,
        _ => {
            let mut wrapped = fields.require("json_schema")?.object()?;
            wrapped.string("name")?;
            wrapped.string("description")?;
            wrapped.boolean("strict")?;
            let found = schema(wrapped.require("schema")?)?;
            wrapped.finish()?;
            Form::JsonSchema(found)
        }
    };
    fields.finish()?;
    Ok(form)
}

/// How much to reason: OpenAI's efforts, of which `none` is not at all.
pub fn reasoning(field: Field) -> Result<ReasoningWish> {
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh"];
    let effort = field.word(&efforts.map(|effort| (effort, effort)))?;
    Ok(if effort == "none" { ReasoningWish::Off } else { ReasoningWish::Effort(effort.to_string()) })
}

/// Refuses a value that is written with more bytes than a schema may have.
pub fn bounded(field: &Field, most: usize) -> Result<()> {
    let length = field.value.as_str().map_or_else(|| field.value.to_string().len(), str::len);
    if length <= most {
        return Ok(());
    }
    let path = &field.path;
    Err(Problem::invalid(path, format!("`{path}` has {length} bytes, and at most {most} are taken")))
}
