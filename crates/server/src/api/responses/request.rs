//! What a request for a response asks for, read field by field.

use gleed_tokenizer::ReasoningWish;
use serde_json::{Map, Value, json};

use super::input;
use crate::answer::{Conversation, Form, Message, Tool, ToolChoice, Wishes};
use crate::api::fields::{Field, Fields};
use crate::api::openai::conversation::{bounded, known_tool, reasoning, schema, tool_name, tools};
use crate::api::openai::sampling::{StreamOptions, wishes};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::limits::Limits;
use crate::model::Model;

type Result<T> = std::result::Result<T, Problem>;

/// A request.
pub struct Wanted {
    /// What is asked.
    pub conversation: Conversation,
    /// How it is answered.
    pub wishes: Wishes,
    /// Whether the answer is wanted as events.
    pub streams: bool,
    /// What the response repeats of the request.
    pub told: Map<String, Value>,
}

/// Parameters that ask for what there is not.
const REFUSED: [(&str, &str); 11] = [
    ("previous_response_id", "nothing is stored here; send the whole conversation as `input`"),
    ("conversation", "nothing is stored here; send the whole conversation as `input`"),
    ("prompt", "nothing is stored here; send `instructions` and `input`"),
    ("context_management", "nothing is left out of a conversation here"),
    ("max_tool_calls", "it bounds built-in tools, of which there are none here"),
    ("moderation", "nothing is moderated here"),
    ("image", "there are no images here"),
    ("access_programs", "there are none here"),
    ("prompt_cache_options", "prefixes are kept by themselves; leave it out"),
    ("n", "a response is one answer"),
    ("logprobs", "use `top_logprobs`, or `include` with `message.output_text.logprobs`"),
];

/// Reads a request, all of it.
pub fn read(arrival: &mut Arrival, model: &Model) -> Result<Wanted> {
    let app = arrival.app.clone();
    let limits = &app.limits;
    let fields = &mut arrival.fields;
    for (name, why) in REFUSED {
        fields.refuse(name, why)?;
    }
    if fields.boolean("background")? == Some(true) {
        return Err(Problem::unsupported("background", "answers are given at once; leave `background` out"));
    }
    if let Some(field) = fields.take("truncation") {
        field.word(&[("disabled", ())])?;
    }
    let metadata = metadata(fields)?;
    let includes_logprobs = included(fields)?;
    let streams = StreamOptions::read(fields)?.is_some();
    let mut wishes = wishes(fields, &app, model.engine.vocabulary())?;
    wishes.settings.max_tokens = fields.count("max_output_tokens", 1..=u32::MAX as usize)?;
    let top = fields.count("top_logprobs", 0..=limits.top_logprobs)?;
    wishes.settings.logprobs = top.or(includes_logprobs.then_some(0));

    let instructions = fields.string("instructions")?;
    let system = instructions.iter().map(|text| Message {
        role: "system",
        content: text.clone(),
        ..Message::default()
    });
    let messages: Vec<Message> =
        system.chain(input::messages(fields.require("input")?, limits.messages)?).collect();
    let offered = fields.take("tools");
    let told_tools = offered.as_ref().map_or(json!([]), |field| field.value.clone());
    let offered = offered.map(|field| tools(field, limits, tool)).transpose()?.unwrap_or_default();
    let choice = fields.take("tool_choice");
    let told_choice = choice.as_ref().map_or(json!("auto"), |field| field.value.clone());
    let (tools, tool_choice) = tool_choice(choice, offered)?;
    let (form, told_text) = text(fields, limits)?;
    let (wish, told_reasoning) = reasoning_of(fields)?;
    let parallel_calls = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    arrival.all_read()?;

    let sampler = &wishes.settings.sampler;
    let told = json!({
        "background": false,
        "instructions": instructions,
        "max_output_tokens": wishes.settings.max_tokens,
        "max_tool_calls": null,
        "metadata": metadata,
        "parallel_tool_calls": parallel_calls,
        "previous_response_id": null,
        "reasoning": told_reasoning,
        "service_tier": "default",
        "store": false,
        "temperature": sampler.temperature,
        "text": told_text,
        "tool_choice": told_choice,
        "tools": told_tools,
        "top_logprobs": top.unwrap_or(0),
        "top_p": sampler.top_p,
        "truncation": "disabled",
    });
    let Value::Object(told) = told else { return Err(Problem::internal("a response has no fields")) };
    let conversation = Conversation {
        messages,
        tools,
        tool_choice,
        parallel_calls,
        form,
        reasoning: wish,
        ..Conversation::default()
    };
    Ok(Wanted { conversation, wishes, streams, told })
}

/// `metadata`: up to 16 short texts, which the response repeats.
fn metadata(fields: &mut Fields) -> Result<Value> {
    let Some(field) = fields.take("metadata") else { return Ok(json!({})) };
    let path = field.path.clone();
    let entries = field.object()?.rest();
    let is_short = |(key, value): (&String, &Value)| {
        key.chars().count() <= 64 && value.as_str().is_some_and(|text| text.chars().count() <= 512)
    };
    if entries.len() > 16 || !entries.iter().all(is_short) {
        let message = "`metadata` may have 16 keys of 64 characters, each with a text of 512 characters";
        return Err(Problem::invalid(path, message));
    }
    Ok(Value::Object(entries))
}

/// `include`: whether log-probabilities are asked for.
fn included(fields: &mut Fields) -> Result<bool> {
    let Some(field) = fields.take("include") else { return Ok(false) };
    let mut found = false;
    for entry in field.list()? {
        // Reasoning is given as it is, so that nothing encrypted is needed to give it back.
        let words = [("message.output_text.logprobs", true), ("reasoning.encrypted_content", false)];
        found |= entry.word(&words)?;
    }
    Ok(found)
}

/// A function. All other tools are OpenAI's own.
fn tool(field: Field) -> Result<Tool> {
    let mut fields = field.object()?;
    function(fields.require("type")?, "tools")?;
    let tool = Tool {
        name: tool_name(fields.require("name")?)?,
        description: fields.string("description")?,
        parameters: fields.take("parameters").map(schema).transpose()?,
    };
    // Arguments always follow their schema here.
    fields.boolean("strict")?;
    fields.finish()?;
    Ok(tool)
}

/// Refuses tools of another kind by its name.
fn function(kind: Field, what: &str) -> Result<()> {
    let path = kind.path.clone();
    let kind = kind.string()?;
    match kind.as_str() {
        "function" => Ok(()),
        _ => Err(Problem::unsupported(
            path,
            format!("{what} of type `{kind}` are not supported, only functions are"),
        )),
    }
}

/// Whether tools must be called, and which may.
fn tool_choice(field: Option<Field>, tools: Vec<Tool>) -> Result<(Vec<Tool>, ToolChoice)> {
    let Some(field) = field else { return Ok((tools, ToolChoice::Auto)) };
    let path = field.path.clone();
    let words = [("auto", 0), ("none", 1), ("required", 2)];
    let (tools, choice) = match field.value {
        Value::Object(_) => {
            let mut fields = field.object()?;
            let kind = fields.require("type")?;
            if kind.value == "allowed_tools" {
                let must = fields.require("mode")?.word(&[("auto", false), ("required", true)])?;
                let names = fields.require("tools")?.list()?.into_iter().map(|entry| {
                    let mut entry = entry.object()?;
                    function(entry.require("type")?, "tools")?;
                    let name = known_tool(entry.require("name")?, &tools)?;
                    entry.finish()?;
                    Ok(name)
                });
                let names: Vec<String> = names.collect::<Result<_>>()?;
                fields.finish()?;
                let tools = tools.into_iter().filter(|tool| names.contains(&tool.name)).collect();
                (tools, if must { ToolChoice::Required } else { ToolChoice::Auto })
            } else {
                function(kind, "choices")?;
                let name = known_tool(fields.require("name")?, &tools)?;
                fields.finish()?;
                (tools, ToolChoice::Named(name))
            }
        }
        _ => match field.word(&words)? {
            0 => (tools, ToolChoice::Auto),
            1 => (tools, ToolChoice::None),
            _ => (tools, ToolChoice::Required),
        },
    };
    if tools.is_empty() && choice == ToolChoice::Required {
        return Err(Problem::invalid(path, "`tool_choice` needs `tools`"));
    }
    Ok((tools, choice))
}

/// `text`: the form of the answer, and how the response repeats it.
fn text(fields: &mut Fields, limits: &Limits) -> Result<(Form, Value)> {
    let plain = || json!({ "format": { "type": "text" } });
    let Some(field) = fields.take("text") else { return Ok((Form::Text, plain())) };
    bounded(&field, limits.schema)?;
    let mut fields = field.object()?;
    // OpenAI's middle, which is what there is.
    if let Some(verbosity) = fields.take("verbosity") {
        verbosity.word(&[("medium", ())])?;
    }
    let Some(format) = fields.take("format") else {
        fields.finish()?;
        return Ok((Form::Text, plain()));
    };
    fields.finish()?;
    let told = json!({ "format": format.value });
    let mut format = format.object()?;
    let form = match format.require("type")?.word(&[("text", 0), ("json_object", 1), ("json_schema", 2)])? {
        0 => Form::Text,
        1 => Form::Json,
        _ => {
            format.require("name")?.string()?;
            format.string("description")?;
            format.boolean("strict")?;
            Form::JsonSchema(schema(format.require("schema")?)?)
        }
    };
    format.finish()?;
    Ok((form, told))
}

/// `reasoning`: how much, and how the response repeats it.
fn reasoning_of(fields: &mut Fields) -> Result<(Option<ReasoningWish>, Value)> {
    let Some(field) = fields.take("reasoning") else {
        return Ok((None, json!({ "effort": null, "summary": null })));
    };
    let mut fields = field.object()?;
    let effort = fields.take("effort");
    let told = effort.as_ref().map(|effort| effort.value.clone());
    let wish = effort.map(reasoning).transpose()?;
    // Reasoning is told in full, which is what a model that chooses may do.
    for name in ["summary", "generate_summary", "context"] {
        if let Some(field) = fields.take(name) {
            field.word(&[("auto", ())])?;
        }
    }
    if let Some(mode) = fields.take("mode") {
        mode.word(&[("standard", ())])?;
    }
    fields.finish()?;
    Ok((wish, json!({ "effort": told, "summary": null })))
}
