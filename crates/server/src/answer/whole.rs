//! A whole answer, for those who do not want it in pieces.

use gleed_engine::Token;

use super::choice::{Ending, Part};

/// One choice, complete.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// What the model said.
    pub text: String,
    /// What it thought before.
    pub reasoning: String,
    /// What it called.
    pub calls: Vec<WholeCall>,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Why it ended.
    pub ending: Option<Ending>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeCall {
    /// How its result will refer to it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: a JSON object, unless the answer was cut.
    pub arguments: String,
}

impl Whole {
    /// Takes in the next part.
    pub fn add(&mut self, part: Part) {
        match part {
            Part::Token(token) => self.tokens.push(token),
            Part::Reasoning(text) => self.reasoning.push_str(&text),
            Part::Text(text) => self.text.push_str(&text),
            Part::CallBegun { id, name, .. } => {
                self.calls.push(WholeCall { id, name, arguments: String::new() });
            }
            Part::CallArguments { call, json } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.arguments.push_str(&json);
                }
            }
            Part::Finished(ending) => self.ending = Some(ending),
        }
    }
}
