//! Calls of tools in the format of the model's family, as a grammar: the names are those of the tools, the arguments
//! are what their schemas say. Reasoning and words are free up to the mark that opens a call.

mod arguments;
mod harmony;
mod json;
mod named;
mod python;
mod tagged;
mod writer;

use std::sync::Arc;

use gleed_tokenizer::AnswerFormat;
use gleed_tokenizer::marks::{Calls, MarkPart, Marks, Reasoning};
use serde_json::{Map, Value, json};

use crate::{Error, Result, limits, schema};
use writer::{Writer, expression, quoted, sequence, without};

/// A mark as control tokens and text.
type Mark = Vec<MarkPart>;

/// What an answer to a request with tools may be.
#[derive(Clone, Debug)]
pub struct ToolGrammar {
    /// How the model's family marks calls.
    pub format: Arc<AnswerFormat>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Which of them must be called.
    pub choice: ToolChoice,
    /// Whether there may be several calls.
    pub parallel: bool,
    /// Whether the prompt ends inside of reasoning: [`AnswerFormat::is_reasoning_begun`].
    pub reasoning_begun: bool,
}

/// A tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments; null where it has none.
    pub parameters: Value,
}

/// Which tools must be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// None must, any may.
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// The most tools of a request.
const MOST_TOOLS: usize = 256;

impl ToolGrammar {
    /// The grammar in Lark's notation; none where everything is free.
    pub(crate) fn lark(&self) -> Result<Option<String>> {
        let is_auto = self.choice == ToolChoice::Auto;
        let marks = self.format.marks();
        let Some(calls) = &marks.calls else {
            let what = "it is not known how this model marks calls";
            return if is_auto { Ok(None) } else { Err(Error::Calls(what.to_string())) };
        };
        match self.write(&marks, calls) {
            // What cannot be said in this format is left to the model, unless it is demanded.
            Err(Error::Calls(_)) if is_auto => Ok(None),
            written => written.map(Some),
        }
    }

    fn write(&self, marks: &Marks<Mark>, calls: &Calls<Mark>) -> Result<String> {
        let tools = self.prepared()?;
        let mut writer = Writer::default();
        let is_auto = self.choice == ToolChoice::Auto;
        let form = match calls {
            Calls::Json(json) => json::write(&mut writer, json, &tools, self.parallel),
            Calls::Named(named) => named::write(&mut writer, named, &tools, self.parallel),
            Calls::Tagged(tagged) => tagged::write(&mut writer, tagged, &tools, self.parallel)?,
            Calls::Python(region) => python::write(&mut writer, region, &tools, self.parallel)?,
            Calls::Gemma { region, quote } => {
                tagged::gemma(&mut writer, region, quote, &tools, self.parallel)?
            }
            Calls::Harmony(harmony) => {
                harmony::write(&mut writer, harmony, &tools, is_auto)?;
                return Ok(writer.finish());
            }
        };
        writer.rule("called", &form.called);
        let reasoning = marks.reasoning.as_ref();
        let begun = match reasoning.filter(|_| self.reasoning_begun) {
            Some(reasoning) => writer.until("thought", &reasoning.end, "/(?s:.*)/", true),
            None => String::new(),
        };
        if is_auto {
            self.free(&mut writer, marks, &form, &begun);
        } else {
            let think = reasoning.filter(|_| !self.reasoning_begun).map_or(String::new(), |reasoning| {
                let end = writer.until("thinking", &reasoning.end, "/(?s:.*)/", true);
                writer.rule("think", &format!("SPACE? {} {end}", sequence(&reasoning.begin)));
                "think?".to_string()
            });
            let calls = match form.bare.is_empty() {
                true => format!("{} called", sequence(&form.open)),
                false => format!("( {} called | {} )", sequence(&form.open), form.bare),
            };
            writer.rule("start", &format!("{begun} {think} SPACE? {calls} SPACE?"));
        }
        Ok(writer.finish())
    }

    /// Words up to a call.
    fn free(&self, writer: &mut Writer, marks: &Marks<Mark>, form: &Form, begun: &str) {
        let mut words = vec!["/(?s:.+)/".to_string()];
        let mut lead = String::new();
        let mut between: Vec<String> = Vec::new();
        let codes = marks.around.iter().filter(|mark| matches!(mark[..], [MarkPart::Token(_), ..]));
        between.extend(codes.map(|mark| sequence(mark)));
        match &marks.reasoning {
            // Text begins reasoning only where nothing but space has come before.
            Some(Reasoning { begin, end }) if matches!(begin[..], [MarkPart::Text(_)]) => {
                let begin = expression(begin);
                let end = writer.until("think", end, &format!("/\\s*{begin}(?s:.*)/"), false);
                words.push(format!("~/\\s*{begin}(?s:.*)/"));
                lead = format!("({end})?");
            }
            Some(Reasoning { begin, end }) => {
                let end = writer.until("thinking", end, "/(?s:.*)/", true);
                between.push(format!("{} {end}", sequence(begin)));
            }
            None => {}
        }
        let mut bare = String::new();
        if !form.bare.is_empty() {
            words.push(format!("~/{}(?s:.*)/", form.bare_head));
            bare = format!("| {}", form.bare);
        }
        let calls = match &form.open[..] {
            [MarkPart::Text(text), behind @ ..] => {
                let before = words.join(" & ").replacen("(?s:.+)", "(?s:.*)", 1);
                let before = writer.until("before", &form.open, &before, true);
                if behind.is_empty() {
                    words.push(without(text));
                }
                format!("{before} called")
            }
            open => format!("TEXT? {} called", sequence(open)),
        };
        writer.rule("TEXT", &words.join(" & "));
        let between = match between.is_empty() {
            true => String::new(),
            false => format!("(TEXT? ({}))*", between.join(" | ")),
        };
        writer.rule("start", &format!("{begun} {lead} {between} ( TEXT? | {calls} {bare} ) SPACE?"));
    }

    /// The tools that may be called, with their schemas prepared.
    fn prepared(&self) -> Result<Vec<Callable>> {
        limits::check("tools", self.tools.len(), MOST_TOOLS)?;
        let is_wanted = |tool: &&Tool| match &self.choice {
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Auto | ToolChoice::Required => true,
        };
        let wanted: Vec<&Tool> = self.tools.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return Err(match &self.choice {
                ToolChoice::Named(name) => Error::Calls(format!("there is no tool {name:?}")),
                _ => Error::Calls("there are no tools".to_string()),
            });
        }
        let mut bytes = 0;
        let mut callables = Vec::new();
        for (number, tool) in wanted.into_iter().enumerate() {
            let refuse = |error| Error::Tool { name: tool.name.clone(), error: Box::new(error) };
            let prefix = format!("t{number}");
            let parameters = object(&tool.parameters);
            let (root, definitions) = schema::prepare_part(&parameters, &prefix).map_err(refuse)?;
            let callable = Callable { name: tool.name.clone(), given: parameters, root, definitions, prefix };
            bytes += callable.document(&callable.root).to_string().len();
            limits::check("bytes of the tools' JSON schemas", bytes, limits::SCHEMA_BYTES)?;
            callables.push(callable);
        }
        Ok(callables)
    }
}

/// The parameters of a tool, which are those of an object even where they do not say so.
fn object(parameters: &Value) -> Value {
    match parameters {
        Value::Null => json!({"type": "object", "properties": {}, "additionalProperties": false}),
        Value::Object(fields) if !fields.contains_key("type") => {
            let mut fields = fields.clone();
            fields.insert("type".to_string(), json!("object"));
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

/// A tool whose schema is prepared.
struct Callable {
    name: String,
    /// Its parameters as they came.
    given: Value,
    root: Value,
    definitions: Map<String, Value>,
    /// What the names of its definitions and rules begin with.
    prefix: String,
}

impl Callable {
    /// A part of its schema as a whole one.
    fn document(&self, part: &Value) -> Value {
        schema::document(part.clone(), self.definitions.clone())
    }

    /// Defines its arguments as JSON and gives the rule's name.
    fn arguments(&self, writer: &mut Writer) -> String {
        let name = format!("{}args", self.prefix);
        writer.rule(&name, &format!("%json {}", self.document(&self.root)));
        name
    }
}

/// How a family's calls are written.
struct Form {
    /// What opens them.
    open: Mark,
    /// What follows the opening mark, as the body of a rule.
    called: String,
    /// A call without an opening mark, as the body of a rule; empty where there is none.
    bare: String,
    /// What such a call begins with, as a regular expression.
    bare_head: String,
}

impl Form {
    fn new(open: &Mark, called: String) -> Form {
        Form { open: open.clone(), called, bare: String::new(), bare_head: String::new() }
    }
}

/// One of several parts of a rule.
fn one_of(parts: &[String]) -> String {
    format!("( {} )", parts.join(" | "))
}

/// Calls that stand each between marks: more of them where several are allowed.
fn repeated(open: &Mark, call: &str, parallel: bool) -> String {
    match parallel {
        true => format!("{call} (SPACE? {} {call})*", sequence(open)),
        false => call.to_string(),
    }
}

/// A name as text; those that would not be read back are refused.
fn plain_name(name: &str) -> Result<String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !name.is_empty() && name.chars().all(is_plain) {
        true => Ok(quoted(name)),
        false => Err(Error::Calls(format!("{name:?} cannot be written as a name in this model's format"))),
    }
}
