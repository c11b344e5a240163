//! Items of a conversation: a reasoning item, a message and calls that follow each other are one turn of the model.

use serde_json::Value;

use crate::answer::{Call, Message};
use crate::api::fields::{Field, Fields};
use crate::api::openai::messages::arguments;
use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

const ROLES: [(&str, &str); 4] =
    [("system", "system"), ("developer", "developer"), ("user", "user"), ("assistant", "assistant")];

/// The messages of an input: a text of the user, or items.
pub fn messages(field: Field, most: usize) -> Result<Vec<Message>> {
    if field.value.is_string() {
        return Ok(vec![Message { role: "user", content: field.string()?, ..Message::default() }]);
    }
    if !field.value.is_array() {
        return Err(field.wrong("a string or a list of items"));
    }
    let mut turns = Turns(Vec::new());
    field.short_list(most)?.into_iter().try_for_each(|item| turns.add(item))?;
    Ok(turns.0)
}

/// Messages so far.
struct Turns(Vec<Message>);

impl Turns {
    fn add(&mut self, field: Field) -> Result<()> {
        let mut fields = field.object()?;
        let kind = fields.take("type");
        let path = fields.path("type");
        let kind = kind.map(Field::string).transpose()?;
        fields.pass_over(&["id", "status"]);
        match kind.as_deref() {
            None | Some("message") => self.message(&mut fields)?,
            Some("reasoning") => self.reasoning(&mut fields)?,
            Some("function_call") => {
                let call = Call {
                    id: fields.require("call_id")?.string()?,
                    name: fields.require("name")?.string()?,
                    arguments: arguments(fields.require("arguments")?)?,
                };
                self.turn(|_| true).calls.push(call);
            }
            Some("function_call_output") => self.result(&mut fields)?,
            Some("item_reference") => {
                let message = "items of type `item_reference` are not supported: nothing is stored here";
                return Err(Problem::unsupported(path, message));
            }
            Some(kind) => {
                let message = format!(
                    "items of type `{kind}` are not supported; `message`, `reasoning`, `function_call` and `function_call_output` are"
                );
                return Err(Problem::unsupported(path, message));
            }
        }
        fields.finish()
    }

    /// The assistant's turn at the end, if what comes can be a part of it, or a new one.
    fn turn(&mut self, goes_on: impl Fn(&Message) -> bool) -> &mut Message {
        let is_open = self.0.last().is_some_and(|last| last.role == "assistant" && goes_on(last));
        if !is_open {
            self.0.push(Message { role: "assistant", ..Message::default() });
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    fn message(&mut self, fields: &mut Fields) -> Result<()> {
        let role = fields.require("role")?.word(&ROLES)?;
        fields.pass_over(&["phase"]);
        let content = content(fields.require("content")?, role == "assistant")?;
        if role == "assistant" {
            // After reasoning.
            self.turn(|turn| turn.content.is_empty() && turn.calls.is_empty()).content = content;
        } else {
            self.0.push(Message { role, content, ..Message::default() });
        }
        Ok(())
    }

    /// What the model thought: its reasoning, or where there is none a summary of it.
    fn reasoning(&mut self, fields: &mut Fields) -> Result<()> {
        fields.refuse("encrypted_content", "this server cannot read it; send `content`")?;
        let mut texts = |name: &str, kind: &'static str| match fields.take(name) {
            Some(field) => field.list()?.into_iter().map(|part| text_of(part, &[kind])).collect(),
            None => Ok(Vec::new()),
        };
        let summary: Vec<String> = texts("summary", "summary_text")?;
        let content: Vec<String> = texts("content", "reasoning_text")?;
        let text = if content.is_empty() { summary } else { content }.join("\n");
        if !text.is_empty() {
            let turn = self.turn(|turn| turn.content.is_empty() && turn.calls.is_empty());
            let before = turn.reasoning.take().map(|before| before + "\n").unwrap_or_default();
            turn.reasoning = Some(before + &text);
        }
        Ok(())
    }

    fn result(&mut self, fields: &mut Fields) -> Result<()> {
        let id = fields.require("call_id")?;
        let path = id.path.clone();
        let id = id.string()?;
        let name = Message::tool_of_call(&self.0, &id).map(str::to_string).ok_or_else(|| {
            let message = format!("`{path}`: no `function_call` before it has the call_id `{id}`");
            Problem::invalid(&path, message)
        })?;
        fields.pass_over(&["name"]);
        let content = content(fields.require("output")?, false)?;
        self.0.push(Message {
            role: "tool",
            content,
            call_id: Some(id),
            name: Some(name),
            ..Message::default()
        });
        Ok(())
    }
}

/// A text: a string, or parts of text, which become lines.
fn content(field: Field, is_output: bool) -> Result<String> {
    if field.value.is_string() {
        return field.string();
    }
    if !field.value.is_array() {
        return Err(field.wrong("a string or a list of parts"));
    }
    let kinds: &[&str] =
        if is_output { &["output_text", "refusal", "input_text"] } else { &["input_text", "output_text"] };
    let parts = field.list()?.into_iter().map(|part| text_of(part, kinds));
    Ok(parts.collect::<Result<Vec<String>>>()?.join("\n"))
}

/// The text of a part of one of some kinds.
fn text_of(part: Field, kinds: &[&str]) -> Result<String> {
    let mut fields = part.object()?;
    let kind = fields.require("type")?;
    if !kinds.iter().any(|known| kind.value == **known) {
        let Value::String(name) = &kind.value else { return Err(kind.wrong("a string")) };
        let message = format!("parts of type `{name}` are not supported here, only text is");
        return Err(Problem::unsupported(kind.path, message));
    }
    let name = if kind.value == "refusal" { "refusal" } else { "text" };
    let text = fields.require(name)?.string()?;
    // What an answer has beside its text is given back with it.
    fields.pass_over(&["annotations", "logprobs", "prompt_cache_breakpoint"]);
    fields.finish()?;
    Ok(text)
}
