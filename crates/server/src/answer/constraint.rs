//! From the form that an answer must have, and the tools that it must call, to constraints of the engine.

use gleed_engine::Constraint;
use gleed_grammar::Grammar;

use super::Constraints;
use super::conversation::{Conversation, Form, ToolChoice};
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
    if !matches!(conversation.tool_choice, ToolChoice::Auto | ToolChoice::None) {
        return Err(Problem::unsupported("tool_choice", "calls cannot be required"));
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
            Some(reading) => {
                AfterReasoning::of(constraint, &reading.format, reading.is_reasoning_begun(), &model.tokenizer)
            }
            None => constraint,
        }))
    };
    (0..choices).map(one).collect()
}
