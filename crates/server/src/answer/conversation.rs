//! What any API asks of a model, in no API's own words.

use std::time::Instant;

use gleed_engine::GenerationSettings;
use gleed_tokenizer::ReasoningWish;
use serde_json::{Map, Value, json};

use crate::adapters::AdapterWish;

/// A conversation that a model shall go on with.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// What was said so far.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Whether it must.
    pub tool_choice: ToolChoice,
    /// Whether it may make several calls in one answer.
    pub parallel_calls: bool,
    /// What the answer must look like.
    pub form: Form,
    /// How much the model shall reason.
    pub reasoning: Option<ReasoningWish>,
    /// Further variables of the chat template.
    pub variables: Map<String, Value>,
    /// Whether the last message is the beginning of the answer.
    pub continues: bool,
}

/// One message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// Who speaks: `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// What is said.
    pub content: String,
    /// What an assistant thought before.
    pub reasoning: Option<String>,
    /// What an assistant called.
    pub calls: Vec<Call>,
    /// Which call a tool's message is the result of.
    pub call_id: Option<String>,
    /// Who of several speaks, or which tool.
    pub name: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// How results refer to it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object.
    pub arguments: Value,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The schema of its arguments; none where it takes none.
    pub parameters: Option<Value>,
}

/// Whether a model must call a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it thinks right.
    #[default]
    Auto,
    /// It must not.
    None,
    /// Some tool.
    Required,
    /// This tool.
    Named(String),
}

/// What an answer must look like.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Form {
    /// Anything.
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON of a schema.
    JsonSchema(Value),
    /// What a regular expression matches.
    Regex(String),
    /// What a grammar derives, in Lark's notation or in llama.cpp's.
    Grammar(String),
}

/// How answers are generated.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// How tokens are chosen and when to stop.
    pub settings: GenerationSettings,
    /// Answers to each prompt.
    pub choices: usize,
    /// How much of which adapters, where it is said.
    pub adapters: Option<Vec<AdapterWish>>,
    /// Whether what earlier requests left may be used.
    pub uses_cache: bool,
    /// When an answer ends wherever it is.
    pub deadline: Option<Instant>,
}

impl Conversation {
    /// Whether the model is told of tools.
    pub fn offers_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }
}

impl Message {
    /// The tool that a call in one of these messages is for.
    pub fn tool_of_call<'a>(messages: &'a [Message], id: &str) -> Option<&'a str> {
        let mut calls = messages.iter().rev().flat_map(|message| &message.calls);
        calls.find(|call| call.id == id).map(|call| call.name.as_str())
    }

    /// The message as chat templates expect it, which is how transformers passes it on.
    pub(super) fn for_template(&self, role: &str) -> Value {
        let mut fields = Map::new();
        fields.insert("role".to_string(), role.into());
        fields.insert("content".to_string(), self.content.as_str().into());
        let texts =
            [("reasoning_content", &self.reasoning), ("tool_call_id", &self.call_id), ("name", &self.name)];
        for (name, text) in texts {
            fields.extend(text.iter().map(|text| (name.to_string(), text.as_str().into())));
        }
        if !self.calls.is_empty() {
            let call = |Call { id, name, arguments }: &Call| {
                let function = json!({ "name": name, "arguments": arguments });
                json!({ "type": "function", "id": id, "function": function })
            };
            fields.insert("tool_calls".to_string(), self.calls.iter().map(call).collect());
        }
        Value::Object(fields)
    }
}

impl Tool {
    /// The tool as chat templates expect it.
    pub(super) fn for_template(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".to_string(), self.name.as_str().into());
        let description = self.description.as_deref().unwrap_or_default();
        function.insert("description".to_string(), description.into());
        let nothing = || json!({ "type": "object", "properties": {} });
        function.insert("parameters".to_string(), self.parameters.clone().unwrap_or_else(nothing));
        json!({ "type": "function", "function": function })
    }
}
