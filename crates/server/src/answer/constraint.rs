//! From the form that an answer must have, and the tools that it must call, to constraints of the engine.

use gleed_grammar::Grammar;

use super::Constraints;
use super::conversation::{Conversation, Form, ToolChoice};
use super::question::Question;
use crate::errors::Problem;
use crate::model::Model;

/// A constraint for each choice, or none at all where an answer may say anything.
pub fn constraints(
    model: &Model,
    conversation: &Conversation,
    _question: &Question,
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
    (0..choices).map(|_| vocabulary.constraint(&grammar).map(Some).map_err(refused)).collect()
}
