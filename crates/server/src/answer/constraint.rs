//! From the form that an answer must have, and the tools that it must call, to constraints of the engine.

use gleed_engine::Constraint;
use gleed_grammar::{Grammar, ToolGrammar};
use serde_json::Value;

use super::Constraints;
use super::conversation::{Conversation, Form, ToolChoice};
use super::question::{Question, Reading};
use super::reasoning::AfterReasoning;
use crate::errors::Problem;
use crate::model::Model;

/// A constraint for each choice, or none at all where an answer may say anything.
pub fn constraints(
    model: &Model,
    conversation: &Conversation,
    question: &Question,
    choices: usize,
) -> Result<Constraints, Problem> {
    let offers = conversation.offers_tools();
    let (grammar, param) = match (&conversation.form, &question.reading) {
        (Form::Text, Some(reading)) if offers => (Grammar::Tools(tools(conversation, reading)), "tools"),
        (Form::Text, _) => return Ok(Vec::new()),
        (_, Some(_)) if offers => {
            let message = "an answer has one form: send tools or a form, or `tool_choice: \"none\"`";
            return Err(Problem::unsupported("response_format", message));
        }
        (Form::Json, _) => (Grammar::Json, "response_format"),
        (Form::JsonSchema(schema), _) => (Grammar::JsonSchema(schema.clone()), "response_format"),
        (Form::Regex(regex), _) => (Grammar::Regex(regex.clone()), "regex"),
        // Rules are defined with `::=` in one notation and with `:` in the other.
        (Form::Grammar(text), _) if text.contains("::=") => (Grammar::Gbnf(text.clone()), "grammar"),
        (Form::Grammar(text), _) => (Grammar::Lark(text.clone()), "grammar"),
    };
    let refused = |error: gleed_grammar::Error| match error {
        gleed_grammar::Error::Calls(_) => Problem::unsupported("tool_choice", error.to_string()),
        _ => Problem::invalid(param, error.to_string()),
    };
    let vocabulary = model.vocabulary().map_err(refused)?;
    let one = |_| -> Result<Option<Box<dyn Constraint>>, Problem> {
        let constraint = vocabulary.constraint(&grammar).map_err(refused)?;
        // Calls have reasoning in their own grammar.
        Ok(Some(match &question.reading {
            Some(reading) if conversation.form != Form::Text && !reading.has_words => AfterReasoning::of(
                constraint,
                &reading.format,
                reading.is_reasoning_begun(),
                &model.tokenizer,
            ),
            _ => constraint,
        }))
    };
    (0..choices).map(one).collect()
}

/// Words, or calls in the model's own format.
fn tools(conversation: &Conversation, reading: &Reading) -> ToolGrammar {
    let tool = |tool: &super::Tool| gleed_grammar::Tool {
        name: tool.name.clone(),
        parameters: tool.parameters.clone().unwrap_or(Value::Null),
    };
    ToolGrammar {
        format: reading.format.clone(),
        tools: conversation.tools.iter().map(tool).collect(),
        choice: match &conversation.tool_choice {
            ToolChoice::Required => gleed_grammar::ToolChoice::Required,
            ToolChoice::Named(name) => gleed_grammar::ToolChoice::Named(name.clone()),
            ToolChoice::Auto | ToolChoice::None => gleed_grammar::ToolChoice::Auto,
        },
        parallel: conversation.parallel_calls,
        reasoning_begun: reading.is_reasoning_begun(),
    }
}
