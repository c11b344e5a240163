//! Chat templates: the Jinja source in a model's file that turns a conversation into a prompt.
//!
//! They are written for Python's Jinja as Hugging Face runs it; this runs them with minijinja, with the
//! same white space settings, Python's methods on strings, lists and dictionaries, and the same extra
//! functions. A template comes with a download, so it may be wrong or hostile: its steps and its output
//! are limited, and a failure is an error for the caller to handle, with [`ChatTemplate::fallback`] at hand.
//! Strings that a template builds on the way and does not write are not limited: minijinja has no hook for it.

mod answer;
mod guard;
mod json;
mod messages;
mod python;
mod switch;
mod time;

pub use answer::{AnswerEvent, AnswerFormat, AnswerParser, Tools, marks};
pub use guard::Prompt;
pub use switch::ReasoningWish;
pub use time::strftime;

use crate::{Error, Result, Tokenizer};
use gleed_gguf::Metadata;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};
use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

/// Values that a template sees beside the messages: tools, dates, switches.
pub type TemplateValue = Value;

/// A template's value from anything that serialises.
pub fn template_value(value: impl Serialize) -> TemplateValue {
    Value::from(Serde(value))
}

/// The most steps of one run. A long conversation with tools takes some tens of thousands.
const MOST_STEPS: u64 = 20_000_000;
/// The most bytes that one run may write.
const MOST_OUTPUT: usize = 64 << 20;

/// One message of a conversation. Richer messages (tool calls, several parts) can be passed to
/// [`ChatTemplate::apply`] as any type that serialises to what the template expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// What is said.
    pub content: String,
    /// What an assistant thought before; a template writes it again where its model wants that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

impl Message {
    /// A message of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), reasoning_content: None }
    }

    /// The same message after some reasoning.
    pub fn with_reasoning(self, reasoning: impl Into<String>) -> Message {
        let reasoning = Some(reasoning.into()).filter(|reasoning| !reasoning.is_empty());
        Message { reasoning_content: reasoning, ..self }
    }
}

/// What a template sees beside the messages.
#[derive(Clone, Debug)]
pub struct TemplateInput<'a> {
    /// Whether the prompt ends with the start of the assistant's answer.
    pub add_generation_prompt: bool,
    /// The text of the BOS token.
    pub bos: &'a str,
    /// The text of the EOS token.
    pub eos: &'a str,
    /// A map of further variables (`tools`, `documents`, `enable_thinking`…), see [`template_value`].
    pub extra: TemplateValue,
    /// What `strftime_now` calls now (in UTC).
    pub now: SystemTime,
}

impl<'a> TemplateInput<'a> {
    /// The usual input: an answer is wanted, BOS and EOS are the tokenizer's, it is now.
    pub fn for_answer(tokenizer: &'a Tokenizer) -> TemplateInput<'a> {
        let text = |id: Option<u32>| {
            id.and_then(|id| tokenizer.piece(id))
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .unwrap_or("")
        };
        TemplateInput {
            add_generation_prompt: true,
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos()),
            extra: Value::UNDEFINED,
            now: SystemTime::now(),
        }
    }
}

/// A parsed chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
}

const NAME: &str = "chat template";

/// The most common form, for models whose vocabulary has its marks.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
/// For models without any marks.
const PLAIN: &str = "{% for message in messages %}{{ message.role | capitalize + ': ' + message.content + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// What RWKV's models were trained on: turns with the names of their speakers, an empty line after each.
const RWKV_WORLD: &str = "{% for message in messages %}{{ message.role | capitalize + ': ' + message.content | trim + '\n\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

impl ChatTemplate {
    /// The template in `tokenizer.chat_template`, if the file has one. Older files of RWKV have a name in its place.
    pub fn from_metadata(metadata: &Metadata) -> Result<Option<ChatTemplate>> {
        let source = metadata.str("tokenizer.chat_template")?;
        let source = source.map(|source| if source == "rwkv-world" { RWKV_WORLD } else { source });
        source.map(ChatTemplate::from_source).transpose()
    }

    /// A template with a name (`tool_use`, `rag`), if the file has it.
    pub fn named_from_metadata(metadata: &Metadata, name: &str) -> Result<Option<ChatTemplate>> {
        metadata.str(&format!("tokenizer.chat_template.{name}"))?.map(ChatTemplate::from_source).transpose()
    }

    /// A template that works with any model: ChatML where the vocabulary has its marks, else `User:` and
    /// `Assistant:` lines.
    pub fn fallback(tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let chatml = tokenizer.token_id("<|im_start|>").is_some();
        ChatTemplate::from_source(if chatml { CHATML } else { PLAIN })
    }

    /// Parses a template.
    pub fn from_source(source: &str) -> Result<ChatTemplate> {
        let mut environment = Environment::new();
        let syntax =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", json::tojson);
        environment.add_filter("indent", python::indent);
        environment.add_test("iterable", python::is_iterable);
        environment.add_function("raise_exception", |message: String| -> std::result::Result<Value, _> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, without_generation_marks(source)).map_err(template_error)?;
        Ok(ChatTemplate { environment, source: source.to_string() })
    }

    /// The template as it is written in the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a prompt for a conversation. `messages` are [`Message`]s or whatever serialises to the maps
    /// that the template expects.
    pub fn apply<M: Serialize>(&self, messages: &[M], input: &TemplateInput) -> Result<String> {
        self.render(template_value(messages), input.extra.clone(), input)
    }

    /// The prompt for a conversation, to be encoded with [`Tokenizer::encode_chat`]: whatever messages, tools and
    /// documents say, only what the template itself writes is read as control tokens.
    pub fn prompt<M: Serialize>(
        &self,
        messages: &[M],
        input: &TemplateInput,
        tokenizer: &Tokenizer,
    ) -> Result<Prompt> {
        let (values, guard) = guard::guarded([template_value(messages), input.extra.clone()], tokenizer)?;
        let [messages, extra] = values;
        Ok(Prompt::new(self.render(messages, extra, input)?, guard))
    }

    fn render(&self, messages: Value, extra: Value, input: &TemplateInput) -> Result<String> {
        let now = input.now;
        let mut context: Vec<(String, Value)> = vec![
            ("messages".into(), messages::with_reasoning_named(messages)),
            ("add_generation_prompt".into(), input.add_generation_prompt.into()),
            ("bos_token".into(), input.bos.into()),
            ("eos_token".into(), input.eos.into()),
            // Present but empty, as Hugging Face passes them.
            ("tools".into(), ().into()),
            ("documents".into(), ().into()),
            ("strftime_now".into(), Value::from_function(move |format: String| time::strftime(&format, now))),
        ];
        if !extra.is_undefined() {
            for key in extra.try_iter().map_err(template_error)? {
                context.push((key.to_string(), extra.get_item(&key).map_err(template_error)?));
            }
        }
        let template = self.environment.get_template(NAME).map_err(template_error)?;
        let mut output = Limited(Vec::new());
        template.render_captured_to(Value::from_pairs(context), &mut output).map_err(template_error)?;
        String::from_utf8(output.0).map_err(|_| Error::Template("the output is not UTF-8".into()))
    }
}

/// One line: what went wrong and in which line of the template.
fn template_error(error: minijinja::Error) -> Error {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        line.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    Error::Template(line)
}

/// Output with an end.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_OUTPUT {
            return Err(std::io::Error::other(format!("more than {MOST_OUTPUT} bytes of output")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `{% generation %}` marks the assistant's words for training and is unknown to Jinja itself. It becomes a
/// condition that always holds, so that the white space around it is treated as it would be.
fn without_generation_marks(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        result.push_str(before);
        let inner = tag.trim_start_matches(['-', '+']).trim_start();
        let word = [("endgeneration", "endif"), ("generation", "if true")].into_iter().find_map(
            |(word, instead)| {
                let after = inner.strip_prefix(word)?;
                let ends = after.trim_start().trim_start_matches(['-', '+']).starts_with("%}");
                ends.then_some((after, instead))
            },
        );
        match word {
            Some((after, instead)) => {
                result.push_str(&tag[..tag.len() - inner.len()]);
                result.push_str(instead);
                rest = after;
            }
            None => rest = tag,
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests;
