//! From the form that an answer must have, and the tools that it must call, to constraints of the engine.

use gleed_engine::Constraint;
use gleed_grammar::{Grammar, ToolGrammar};

use super::Constraints;
use super::conversation::{Conversation, Form, Tool, ToolChoice};
use super::question::Question;
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
    if conversation.offers_tools() {
        return calls(model, conversation, question, choices);
    }
    let (grammar, param) = match &conversation.form {
        Form::Text => return Ok(Vec::new()),
        Form::Json => (Grammar::Json, "response_format"),
        Form::JsonSchema(schema) => (Grammar::JsonSchema(schema.clone()), "response_format"),
        Form::Regex(regex) => (Grammar::Regex(regex.clone()), "regex"),
        Form::Grammar(grammar) => (Grammar::Lark(grammar.clone()), "grammar"),
    };
    let refused = |error: gleed_grammar::Error| Problem::invalid(param, error.to_string());
    let vocabulary = model.vocabulary().map_err(refused)?;
    let one = |_| -> Result<Option<Box<dyn Constraint>>, Problem> {
        let constraint = vocabulary.constraint(&grammar).map_err(refused)?;
        Ok(Some(match &question.reading {
            Some(reading) => AfterReasoning::of(
                constraint,
                &reading.format,
                reading.is_reasoning_begun(),
                &model.tokenizer,
            ),
            None => constraint,
        }))
    };
    (0..choices).map(one).collect()
}

/// The constraints of answers that may or must call tools: calls are those of the tools, with arguments by their schemas.
fn calls(
    model: &Model,
    conversation: &Conversation,
    question: &Question,
    choices: usize,
) -> Result<Constraints, Problem> {
    if conversation.form != Form::Text {
        let message = "an answer cannot be held to a form while it may call tools; leave one of them out, or forbid calls";
        return Err(Problem::unsupported("response_format", message));
    }
    let Some(reading) = &question.reading else { return Ok(Vec::new()) };
    let tool = |tool: &Tool| gleed_grammar::Tool {
        name: tool.name.clone(),
        parameters: tool.parameters.clone().unwrap_or_default(),
    };
    let grammar = Grammar::Tools(ToolGrammar {
        format: reading.format.clone(),
        tools: conversation.tools.iter().map(tool).collect(),
        choice: match &conversation.tool_choice {
            ToolChoice::Auto | ToolChoice::None => gleed_grammar::ToolChoice::Auto,
            ToolChoice::Required => gleed_grammar::ToolChoice::Required,
            ToolChoice::Named(name) => gleed_grammar::ToolChoice::Named(name.clone()),
        },
        parallel: conversation.parallel_calls,
        reasoning_begun: reading.is_reasoning_begun(),
    });
    let refused = |error: gleed_grammar::Error| Problem::invalid("tools", error.to_string());
    let vocabulary = model.vocabulary().map_err(refused)?;
    (0..choices).map(|_| vocabulary.constraint(&grammar).map(Some).map_err(refused)).collect()
}
