//! What a request for a message asks for, read field by field.

use gleed_engine::{GenerationSettings, SamplerSettings};
use gleed_tokenizer::ReasoningWish;

use super::messages;
use crate::answer::{Conversation, Form, Tool, ToolChoice, Wishes};
use crate::api::fields::{Field, Fields};
use crate::api::openai::conversation::{bounded, known_tool, schema, tool_name, tools};
use crate::api::openai::sampling::stops;
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
}

/// Parameters that ask for what there is not.
const REFUSED: [(&str, &str); 9] = [
    ("container", "nothing is run here"),
    ("mcp_servers", "the server calls nobody; offer `tools`"),
    ("context_management", "nothing is left out of a conversation here"),
    ("diagnostics", "prefixes are kept by themselves; `usage` tells of them"),
    ("inference_geo", "a model runs where the server is"),
    ("user_profile_id", "there are no profiles here"),
    ("workspace_id", "there are no workspaces here"),
    ("output_format", "use `output_config.format`"),
    ("prefill", "let an assistant's message be the last"),
];

/// Reads a request, all of it.
pub fn read(arrival: &mut Arrival, model: &Model) -> Result<Wanted> {
    let app = arrival.app.clone();
    let fields = &mut arrival.fields;
    let most = fields.require("max_tokens")?.integer(1..=i64::from(u32::MAX))? as usize;
    let sampler = SamplerSettings {
        temperature: fields.number("temperature", 0.0..=1.0)?.unwrap_or(1.0),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0),
        top_k: fields.count("top_k", 0..=u32::MAX as usize)?.unwrap_or(0),
        // Not Anthropic's, but how else is an answer repeated?
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(|seed| seed as u64),
        ..plain_sampler()
    };
    let stop = match fields.take("stop_sequences") {
        Some(field) if !field.value.is_array() => return Err(field.wrong("a list of strings")),
        field => stops(field, &app)?,
    };
    let settings =
        GenerationSettings { max_tokens: Some(most), stop, sampler, ..GenerationSettings::default() };
    let wishes =
        Wishes { settings, choices: 1, adapters: None, uses_cache: true, deadline: app.deadline(None) };
    let streams = fields.boolean("stream")?.unwrap_or(false);
    if let Some(field) = fields.take("metadata") {
        let mut fields = field.object()?;
        fields.string("user_id")?;
        fields.finish()?;
    }
    if let Some(field) = fields.take("service_tier") {
        field.word(&[("auto", ()), ("standard_only", ())])?;
    }
    if let Some(field) = fields.take("speed") {
        field.word(&[("standard", ())])?;
    }
    let conversation = question(fields, &app.limits, model, Some(most))?;
    Ok(Wanted { conversation, wishes, streams })
}

/// Reads what is asked, without how it is answered.
pub fn read_question(arrival: &mut Arrival, model: &Model) -> Result<Conversation> {
    let app = arrival.app.clone();
    question(&mut arrival.fields, &app.limits, model, None)
}

/// A sampler that changes nothing.
fn plain_sampler() -> SamplerSettings {
    SamplerSettings { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerSettings::default() }
}

/// The conversation, and nothing may be left.
fn question(
    fields: &mut Fields,
    limits: &Limits,
    model: &Model,
    most: Option<usize>,
) -> Result<Conversation> {
    for (name, why) in REFUSED {
        fields.refuse(name, why)?;
    }
    // Prefixes are kept by themselves.
    fields.pass_over(&["cache_control"]);
    let system = fields.take("system").map(messages::system).transpose()?;
    let messages = messages::messages(system, fields.require("messages")?, limits.messages)?;
    let tools = match fields.take("tools") {
        Some(field) => tools(field, limits, tool)?,
        None => Vec::new(),
    };
    let (tool_choice, parallel_calls) = match fields.take("tool_choice") {
        Some(field) => choice(field, &tools)?,
        None => (ToolChoice::Auto, true),
    };
    let (effort, form) = match fields.take("output_config") {
        Some(field) => output(field, limits)?,
        None => (None, Form::Text),
    };
    let thinking = fields.take("thinking").map(|field| thinking(field, most)).transpose()?;
    std::mem::replace(fields, Fields::empty()).finish()?;
    let Thinking { wish, budget } = thinking.unwrap_or_default();
    let mut variables = serde_json::Map::new();
    if let Some(budget) = budget
        && model.chat(!tools.is_empty()).template.reads("thinking_budget")
    {
        variables.insert("thinking_budget".to_string(), budget.into());
    }
    let continues = messages.last().is_some_and(|last| last.role == "assistant");
    Ok(Conversation {
        messages,
        tools,
        tool_choice,
        parallel_calls,
        form,
        // An effort is of reasoning that is not turned off.
        reasoning: wish.filter(|wish| *wish == ReasoningWish::Off || effort.is_none()).or(effort),
        variables,
        continues,
    })
}

/// A tool of the client. All others are Anthropic's own.
fn tool(field: Field) -> Result<Tool> {
    let mut fields = field.object()?;
    if let Some(kind) = fields.take("type")
        && kind.value != "custom"
    {
        let message = format!("tools of type {} are not supported, only `custom` ones are", kind.value);
        return Err(Problem::unsupported(kind.path, message));
    }
    fields.refuse("input_examples", "put examples into `description`")?;
    if fields.boolean("defer_loading")? == Some(true) {
        let path = fields.path("defer_loading");
        return Err(Problem::unsupported(
            path,
            "all tools are shown to the model; leave `defer_loading` out",
        ));
    }
    if let Some(callers) = fields.take("allowed_callers") {
        callers.list()?.into_iter().try_for_each(|caller| caller.word(&[("direct", ())]))?;
    }
    let tool = Tool {
        name: tool_name(fields.require("name")?)?,
        description: fields.string("description")?,
        parameters: Some(schema(fields.require("input_schema")?)?),
    };
    // Arguments always follow their schema here and always come as they are written.
    fields.boolean("strict")?;
    fields.boolean("eager_input_streaming")?;
    fields.pass_over(&["cache_control"]);
    fields.finish()?;
    Ok(tool)
}

/// Whether tools must be called, and whether several may.
fn choice(field: Field, tools: &[Tool]) -> Result<(ToolChoice, bool)> {
    let path = field.path.clone();
    let mut fields = field.object()?;
    let words = [("auto", 0), ("any", 1), ("tool", 2), ("none", 3)];
    let choice = match fields.require("type")?.word(&words)? {
        0 => ToolChoice::Auto,
        1 => ToolChoice::Required,
        2 => ToolChoice::Named(known_tool(fields.require("name")?, tools)?),
        _ => ToolChoice::None,
    };
    let is_single = match choice {
        ToolChoice::None => false,
        _ => fields.boolean("disable_parallel_tool_use")?.unwrap_or(false),
    };
    fields.finish()?;
    if tools.is_empty() && choice == ToolChoice::Required {
        return Err(Problem::invalid(path, "`tool_choice` needs `tools`"));
    }
    Ok((choice, !is_single))
}

/// `output_config`: how much to reason, and the form of the answer.
fn output(field: Field, limits: &Limits) -> Result<(Option<ReasoningWish>, Form)> {
    bounded(&field, limits.schema)?;
    let mut fields = field.object()?;
    let efforts = ["low", "medium", "high", "xhigh", "max"].map(|effort| (effort, effort));
    let effort = fields.take("effort").map(|field| field.word(&efforts)).transpose()?;
    let form = match fields.take("format") {
        None => Form::Text,
        Some(format) => {
            let mut format = format.object()?;
            format.require("type")?.word(&[("json_schema", ())])?;
            let schema = schema(format.require("schema")?)?;
            format.finish()?;
            Form::JsonSchema(schema)
        }
    };
    fields.finish()?;
    Ok((effort.map(|effort| ReasoningWish::Effort(effort.to_string())), form))
}

/// What `thinking` asks for.
#[derive(Default)]
struct Thinking {
    /// Whether to think; none is as the model does.
    wish: Option<ReasoningWish>,
    /// With this many tokens.
    budget: Option<i64>,
}

fn thinking(field: Field, most: Option<usize>) -> Result<Thinking> {
    let mut fields = field.object()?;
    let words = [("enabled", 0), ("disabled", 1), ("adaptive", 2)];
    let kind = fields.require("type")?.word(&words)?;
    let budget = match kind {
        0 => {
            // Some of the answer must be left to say something.
            let most = most.map_or(i64::from(u32::MAX), |most| most as i64 - 1);
            Some(fields.require("budget_tokens")?.integer(1..=most)?)
        }
        _ => None,
    };
    if kind != 1
        && let Some(display) = fields.take("display")
    {
        display.word(&[("summarized", ())])?;
    }
    fields.finish()?;
    let wish = match kind {
        0 => Some(ReasoningWish::On),
        1 => Some(ReasoningWish::Off),
        _ => None,
    };
    Ok(Thinking { wish, budget })
}
