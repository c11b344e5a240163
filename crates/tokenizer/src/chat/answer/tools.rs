//! The tools that a request offers, as far as reading their calls needs them.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names of tools and the types of their parameters.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    tools: Arc<BTreeMap<String, BTreeMap<String, Kind>>>,
}

/// Whether a parameter is text, which some formats write without quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Other,
    /// The schema leaves it open.
    Either,
}

impl Tools {
    /// Reads a list of tools as requests have them: `{"type": "function", "function": {"name", "parameters"}}`, or
    /// the inner object alone. What is not such a tool is passed over.
    pub fn new(list: &[impl Serialize]) -> Tools {
        let tools = list.iter().filter_map(|tool| {
            let tool = serde_json::to_value(tool).ok()?;
            let function = tool.get("function").unwrap_or(&tool);
            let name = function.get("name")?.as_str()?.to_string();
            let schema = function.get("parameters").or(function.get("input_schema"));
            let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
            let kinds = properties.into_iter().flatten().map(|(key, schema)| (key.clone(), kind(schema)));
            Some((name, kinds.collect()))
        });
        Tools { tools: Arc::new(tools.collect()) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether a tool has this name.
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    pub(super) fn kind(&self, tool: &str, parameter: &str) -> Kind {
        self.tools.get(tool).and_then(|kinds| kinds.get(parameter).copied()).unwrap_or(Kind::Either)
    }
}

fn kind(schema: &Value) -> Kind {
    match schema.get("type") {
        Some(Value::String(name)) if name == "string" => Kind::Text,
        Some(Value::String(_)) => Kind::Other,
        _ => Kind::Either,
    }
}
