//! From a conversation or a text to the tokens of a prompt.

use std::sync::Arc;

use gleed_tokenizer::marks::MarkPart;
use gleed_tokenizer::{
    AnswerFormat, AnswerParser, ReasoningWish, Special, TemplateInput, TemplateValue, Tools, template_value,
};
use serde_json::Value;

use super::conversation::{Conversation, Message};
use crate::errors::Problem;
use crate::model::{Chat, Model};

/// What a model is asked.
#[derive(Clone)]
pub struct Question {
    /// The tokens of the prompt.
    pub tokens: Vec<u32>,
    /// How the answer is read; none for a text that is continued.
    pub reading: Option<Reading>,
}

/// How the answer to a chat template's prompt is read.
#[derive(Clone)]
pub struct Reading {
    /// The prompt as the template wrote it.
    prompt: String,
    /// How the model marks reasoning and calls.
    pub format: Arc<AnswerFormat>,
    /// What it was offered.
    pub tools: Tools,
    /// What is there of the answer already, as the parser reads it.
    beginning: String,
    /// Whether the answer's words have begun there, behind all reasoning.
    pub has_words: bool,
}

impl Reading {
    /// A parser for one answer.
    pub fn parser(&self) -> AnswerParser {
        AnswerParser::new(&self.format, &self.prompt, &self.tools).after(&self.beginning)
    }

    /// Whether the answer goes on inside of reasoning.
    pub fn is_reasoning_begun(&self) -> bool {
        self.parser().is_reasoning()
    }

    /// The prompt and what is there of the answer, control tokens written out.
    pub fn written(&self) -> String {
        self.prompt.clone() + &self.format.written(&self.beginning)
    }
}

/// Variables of a template that are not the caller's to set.
const RESERVED: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

impl Question {
    /// A text to be continued, whose control tokens are read as such: it is the caller's own prompt.
    pub fn of_text(model: &Model, text: &str) -> Question {
        Question { tokens: model.tokenizer.encode_prompt(text, true, true), reading: None }
    }

    /// Tokens to be continued.
    pub fn of_tokens(tokens: Vec<u32>) -> Question {
        Question { tokens, reading: None }
    }

    /// A conversation up to where the model's answer begins. Nothing that messages, tools or variables say becomes a
    /// control token.
    pub fn of_conversation(model: &Model, conversation: &Conversation) -> Result<Question, Problem> {
        let offers = conversation.offers_tools();
        let chat = model.chat(offers);
        if offers && !chat.format.marks_calls() {
            let message = "the model's chat template knows no tools; leave them out, or use another model";
            return Err(Problem::unsupported("tools", message));
        }
        let (messages, begun) = match conversation.messages.split_last() {
            Some((last, before)) if conversation.continues => (before, Some(last)),
            _ => (&conversation.messages[..], None),
        };
        let thought = begun.and_then(|message| message.reasoning.as_deref()).unwrap_or_default();
        if !thought.is_empty() && !chat.format.marks_reasoning() {
            let message = "the model marks no reasoning, so that none can be continued; leave it out";
            return Err(Problem::unsupported("messages", message));
        }
        let tools: Vec<Value> = match offers {
            true => conversation.tools.iter().map(|tool| tool.for_template()).collect(),
            false => Vec::new(),
        };
        let mut variables = variables(chat, conversation)?;
        if offers {
            variables.push(("tools".to_string(), template_value(&tools)));
        }
        let mut input = TemplateInput::for_answer(&model.tokenizer);
        input.extra = TemplateValue::from_pairs(variables);
        let messages: Vec<Value> = messages.iter().map(|message| for_template(message, chat)).collect();
        let prompt = chat.template.prompt(&messages, &input, &model.tokenizer).map_err(|error| {
            // Templates refuse conversations that their models were not made for, such as two turns of a user.
            Problem::invalid("messages", format!("the model's chat template refuses the messages: {error}"))
        })?;
        let mut tokens = model.tokenizer.encode_chat(&prompt);
        let prompt = prompt.text().to_string();
        let words = begun.map_or("", |message| &message.content);
        let beginning = chat.format.beginning(&prompt, thought, words);
        for part in chat.format.parts(&beginning) {
            match part {
                MarkPart::Token(token) => tokens.push(token),
                MarkPart::Text(text) => tokens.extend(model.tokenizer.encode(&text, Special::Literal)),
            }
        }
        let reading = Reading {
            prompt,
            format: chat.format.clone(),
            tools: Tools::new(&tools),
            beginning,
            has_words: !words.is_empty(),
        };
        Ok(Question { tokens, reading: Some(reading) })
    }
}

/// A message in the role that the template knows.
fn for_template(message: &Message, chat: &Chat) -> Value {
    // OpenAI's newer word for the same, which few templates read.
    let is_new = message.role == "developer" && !chat.template.source().contains("developer");
    message.for_template(if is_new { "system" } else { message.role })
}

/// What the template is told beside messages and tools.
fn variables(chat: &Chat, conversation: &Conversation) -> Result<Vec<(String, TemplateValue)>, Problem> {
    let mut variables = match &conversation.reasoning {
        Some(wish) => reasoning(chat, wish)?,
        None => Vec::new(),
    };
    for (name, value) in &conversation.variables {
        let path = format!("chat_template_kwargs.{name}");
        if RESERVED.contains(&name.as_str()) {
            return Err(Problem::invalid(&path, format!("`{path}` is set by the server; leave it out")));
        }
        if !chat.template.reads(name) {
            let message = format!("the model's chat template reads no variable `{name}`; leave it out");
            return Err(Problem::unsupported(path, message));
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), template_value(value)));
    }
    Ok(variables)
}

/// The variables that ask for reasoning as wished, in what the template has: an effort, or on and off.
fn reasoning(chat: &Chat, wish: &ReasoningWish) -> Result<Vec<(String, TemplateValue)>, Problem> {
    let switch = match wish {
        ReasoningWish::Effort(_) => ReasoningWish::On,
        other => other.clone(),
    };
    let template = &chat.template;
    let found = template.reasoning_variables(wish).or_else(|| template.reasoning_variables(&switch));
    match found {
        Some(variables) => Ok(variables),
        // There is nothing to turn off, or it is always on.
        None if (switch == ReasoningWish::On) == chat.format.marks_reasoning() => Ok(Vec::new()),
        None => {
            let message = "the model's chat template has no switch for reasoning; leave it out";
            Err(Problem::unsupported("reasoning_effort", message))
        }
    }
}
