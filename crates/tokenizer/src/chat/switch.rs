//! Switches for reasoning: the variables that templates read to turn it on or off, or to ask for more or less of it.

use super::{ChatTemplate, NAME, TemplateValue};
use minijinja::Value;
use std::collections::HashSet;

/// How much a model should reason before it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningWish {
    /// Before every answer.
    On,
    /// Not at all.
    Off,
    /// As much as this word says; templates know `low`, `medium` and `high`, some others too.
    Effort(String),
}

/// A variable with what turns reasoning on and off; nothing where leaving it out does.
struct Switch {
    name: &'static str,
    on: Option<Value>,
    off: Value,
}

fn switches() -> [Switch; 6] {
    let switch = |name, on: Option<Value>, off: Value| Switch { name, on, off };
    [
        // Qwen 3, GLM, SmolLM 3, Nemotron, Gemma 4 and most others
        switch("enable_thinking", Some(true.into()), false.into()),
        // DeepSeek, Granite
        switch("thinking", Some(true.into()), false.into()),
        // Command A
        switch("reasoning", Some(true.into()), false.into()),
        // MiniMax M3
        switch("thinking_mode", Some("enabled".into()), "disabled".into()),
        // Ling
        switch("thinking_option", Some("on".into()), "off".into()),
        // Seed-OSS: a number of tokens
        switch("thinking_budget", None, 0.into()),
    ]
}

/// The variables that hold an effort: gpt-oss's, and others'.
const EFFORTS: [&str; 2] = ["reasoning_effort", "reasoning_strength"];

impl ChatTemplate {
    /// The variables for [`TemplateInput::extra`](super::TemplateInput::extra) that ask for this much reasoning; none
    /// when the template reads no such variable.
    pub fn reasoning_variables(&self, wish: &ReasoningWish) -> Option<Vec<(String, TemplateValue)>> {
        let undeclared = self.undeclared();
        let read = |name: &str| undeclared.contains(name) || has_default(&self.source, name);
        let mut variables: Vec<(String, Value)> = Vec::new();
        let mut is_known = false;
        for Switch { name, on, off } in switches().into_iter().filter(|switch| read(switch.name)) {
            is_known |= !matches!(wish, ReasoningWish::Effort(_));
            let value = if *wish == ReasoningWish::Off { Some(off) } else { on };
            variables.extend(value.map(|value| (name.to_string(), value)));
        }
        if let ReasoningWish::Effort(effort) = wish {
            for name in EFFORTS.into_iter().filter(|&name| read(name)) {
                is_known = true;
                variables.push((name.to_string(), effort.as_str().into()));
            }
        }
        is_known.then_some(variables)
    }

    /// Whether the template reads a variable of this name, which is not one of its own.
    pub fn reads(&self, name: &str) -> bool {
        self.undeclared().contains(name) || has_default(&self.source, name)
    }

    fn undeclared(&self) -> HashSet<String> {
        let template = self.environment.get_template(NAME);
        template.map(|template| template.undeclared_variables(false)).unwrap_or_default()
    }
}

/// Whether a template gives a variable a value of its own where it has none: `set x = x if x is defined else …`, which
/// counts as declared.
fn has_default(source: &str, name: &str) -> bool {
    source.match_indices(name).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let rest = source[at + name.len()..].trim_start();
        let rest = rest.strip_prefix('|').map_or(rest, str::trim_start);
        let asks = ["is defined", "is not defined", "is undefined", "is not undefined", "default("];
        !source[..at].ends_with(is_part) && asks.iter().any(|ask| rest.starts_with(ask))
    })
}
