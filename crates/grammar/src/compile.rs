//! What a request can ask for, and how it becomes a constraint.

use gleed_engine::Constraint;
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, regex_to_lark};
use serde_json::{Value, json};

use crate::constraint::{Follower, Free};
use crate::vocabulary::first_line;
use crate::{Error, Result, ToolGrammar, Vocabulary, gbnf, lark, limits, schema};

/// What an answer must be.
#[derive(Clone, Debug)]
pub enum Grammar {
    /// A JSON object.
    Json,
    /// JSON that a schema holds for.
    JsonSchema(Value),
    /// A text that a regular expression matches as a whole.
    Regex(String),
    /// A text of a grammar in Lark's notation, whose start is the rule `start`. JSON schemas in it follow `%json`.
    Lark(String),
    /// A text of a grammar in llama.cpp's notation, whose start is the rule `root`.
    Gbnf(String),
    /// Words, and calls of tools in the model's own format.
    Tools(ToolGrammar),
}

impl Vocabulary {
    /// Compiles a grammar. It takes milliseconds for usual ones and is bounded for all; call it off threads that must
    /// not wait.
    pub fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>> {
        // Schemas refer to schemas and rules to rules, which is followed by recursion.
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("grammar".to_string()).stack_size(limits::STACK);
            let refused = |what: String| Error::Refused { kind: "grammar", what };
            let thread = builder.spawn_scoped(scope, || self.compile(grammar));
            let thread = thread.map_err(|error| refused(format!("no thread can be started: {error}")))?;
            thread.join().unwrap_or_else(|_| Err(refused("compiling it failed".to_string())))
        })
    }

    fn compile(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>> {
        match grammar {
            Grammar::Json => self.schema(&json!({"type": "object"})),
            Grammar::JsonSchema(schema) => self.schema(schema),
            Grammar::Regex(regex) => {
                limits::check("bytes of a regular expression", regex.len(), limits::REGEX_BYTES)?;
                let repetitions = lark::quantifiers_of(regex);
                limits::check("repetitions in a regular expression", repetitions, limits::QUANTIFIERS)?;
                // The expression matches the whole text with or without saying so.
                let inner = regex.strip_prefix('^').unwrap_or(regex);
                let inner = match inner.strip_suffix('$') {
                    Some(start) if !ends_with_escape(start) => start,
                    _ => inner,
                };
                let lark = format!("start: /{}/", regex_to_lark(inner, ""));
                self.finish(TopLevelGrammar::from_lark(lark), "regular expression")
            }
            Grammar::Lark(lark) => {
                self.finish(TopLevelGrammar::from_lark(lark::prepared(lark)?), "Lark grammar")
            }
            Grammar::Gbnf(gbnf) => {
                let lark = lark::prepared(&gbnf::to_lark(gbnf)?)?;
                self.finish(TopLevelGrammar::from_lark(lark), "GBNF grammar")
            }
            Grammar::Tools(tools) => match tools.lark()? {
                Some(lark) => self.finish(TopLevelGrammar::from_lark(lark), "grammar of calls"),
                None => Ok(Box::new(Free)),
            },
        }
    }

    fn schema(&self, given: &Value) -> Result<Box<dyn Constraint>> {
        let prepared = schema::prepare(given)?;
        match self.finish(TopLevelGrammar::from_json_schema(prepared), "JSON schema") {
            Err(Error::Refused { what, .. }) => Err(schema::locate(given, &what)),
            other => other,
        }
    }

    fn finish(&self, grammar: TopLevelGrammar, kind: &'static str) -> Result<Box<dyn Constraint>> {
        let refused = |what: String| Error::Refused { kind, what };
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| refused(in_words(&first_line(&format!("{error:#}")))))?;
        let follower = Follower::new(Matcher::new(Ok(parser)));
        Ok(Box::new(follower.map_err(|what| refused(in_words(&what)))?))
    }
}

/// Whether what follows this text is escaped.
fn ends_with_escape(text: &str) -> bool {
    text.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// The compiler's complaint, where its words are for those who call it.
fn in_words(complaint: &str) -> String {
    match complaint {
        _ if complaint.contains("NoExtension") => "there is no text that it allows",
        _ if complaint.contains("lexer precomputation failed") => "it is too costly",
        _ if complaint.contains("initial lexer configuration") => "it is too large",
        other => other,
    }
    .to_string()
}
