//! From the form that an answer must have, and the tools that it must call, to constraints of the engine.

use super::Constraints;
use super::conversation::{Conversation, Form, ToolChoice};
use super::question::Question;
use crate::errors::Problem;
use crate::model::Model;

/// A constraint for each choice, or none at all where an answer may say anything.
pub fn constraints(
    _model: &Model,
    conversation: &Conversation,
    _question: &Question,
    _choices: usize,
) -> Result<Constraints, Problem> {
    if conversation.form != Form::Text {
        return Err(Problem::unsupported("response_format", "only text can be asked for"));
    }
    if !matches!(conversation.tool_choice, ToolChoice::Auto | ToolChoice::None) {
        return Err(Problem::unsupported("tool_choice", "calls cannot be required"));
    }
    Ok(Vec::new())
}
