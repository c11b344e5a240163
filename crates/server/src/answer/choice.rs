//! One answer among those to a request: what an engine tells of it becomes parts that any API can show.

use std::time::Instant;

use gleed_engine::{Event, Finish, FinishReason, Token, Update};
use gleed_tokenizer::{AnswerEvent, AnswerParser};

use super::question::Reading;
use crate::errors::Problem;
use crate::ids;
use crate::metrics::Meter;

/// A part of an answer. A token comes before the words that it completes.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A token, with its log-probabilities where they are asked for.
    Token(Token),
    /// More of what the model thinks.
    Reasoning(String),
    /// More of what the model says.
    Text(String),
    /// A call begins.
    CallBegun {
        /// Which call of the answer, from 0.
        call: usize,
        /// How its result will refer to it.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments, which joined are a JSON object.
    CallArguments {
        /// Which call.
        call: usize,
        /// The next characters.
        json: String,
    },
    /// The end.
    Finished(Ending),
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The model ended it.
    Stop,
    /// This stop string came.
    StopString(String),
    /// The most tokens, or the end of the context.
    Length,
    /// The model called tools and waits for their results.
    Calls,
    /// Its time was over.
    Deadline,
}

/// An answer in the making.
pub struct Choice {
    parser: Option<AnswerParser>,
    /// Ids of the calls so far.
    calls: Vec<String>,
    /// Tokens of reasoning.
    reasoning: usize,
    /// Tokens of which it is not known yet what they are.
    undecided: usize,
    reasons: bool,
    finish: Option<Finish>,
    cached: usize,
    meter: Meter,
}

impl Choice {
    /// An answer that was just asked for.
    pub fn new(reading: Option<&Reading>, meter: Meter) -> Choice {
        Choice {
            parser: reading.map(Reading::parser),
            calls: Vec::new(),
            reasoning: 0,
            undecided: 0,
            reasons: false,
            finish: None,
            cached: 0,
            meter,
        }
    }

    /// How it ended, when it has.
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// Tokens of the prompt that an earlier request left.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// Tokens of reasoning.
    pub fn reasoning(&self) -> usize {
        self.reasoning
    }

    /// Takes in what the engine tells and gives its parts to `say`.
    pub fn update(&mut self, update: Update, mut say: impl FnMut(Part)) -> Result<(), Problem> {
        match update {
            Update::Started { cached_tokens } => {
                self.cached = cached_tokens;
                self.meter.started();
            }
            Update::Event(event) => {
                let text = match event {
                    Event::Token(mut token) => {
                        self.meter.token(Instant::now());
                        self.undecided += 1;
                        let text = std::mem::take(&mut token.text);
                        say(Part::Token(token));
                        text
                    }
                    Event::Rest(text) => text,
                };
                match &mut self.parser {
                    Some(parser) => {
                        let events = parser.push(&text);
                        self.say_all(events, &mut say);
                    }
                    None if text.is_empty() => {}
                    None => say(Part::Text(text)),
                }
            }
            Update::Finished(finish) => {
                if let Some(parser) = &mut self.parser {
                    let events = parser.finish();
                    self.say_all(events, &mut say);
                }
                if self.reasons {
                    self.reasoning += self.undecided;
                }
                let ending = self.ending(&finish.reason);
                self.meter.finished(&finish);
                self.finish = Some(finish);
                say(Part::Finished(ending));
            }
            Update::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn ending(&self, reason: &FinishReason) -> Ending {
        match reason {
            FinishReason::Stop(_) if !self.calls.is_empty() => Ending::Calls,
            FinishReason::Stop(_) => Ending::Stop,
            FinishReason::StopString(stop) => Ending::StopString(stop.clone()),
            FinishReason::Length => Ending::Length,
            FinishReason::Cancelled => Ending::Deadline,
        }
    }

    fn say_all(&mut self, events: Vec<AnswerEvent>, say: &mut impl FnMut(Part)) {
        for event in events {
            self.reasons = matches!(event, AnswerEvent::Reasoning(_));
            if self.reasons {
                self.reasoning += self.undecided;
            }
            self.undecided = 0;
            match event {
                AnswerEvent::Reasoning(text) => say(Part::Reasoning(text)),
                AnswerEvent::Text(text) => say(Part::Text(text)),
                AnswerEvent::CallBegun { call, id, name } => {
                    let id = id.unwrap_or_else(|| ids::new("call_"));
                    self.calls.push(id.clone());
                    say(Part::CallBegun { call, id, name });
                }
                AnswerEvent::CallArguments { call, json } => say(Part::CallArguments { call, json }),
                // All of it was told.
                AnswerEvent::CallFinished { .. } => {}
                // What was told of it stays as far as it came, as it does where an answer is cut.
                AnswerEvent::CallBroken { call: Some(_), .. } => {}
                AnswerEvent::CallBroken { call: None, text, .. } => say(Part::Text(text)),
            }
        }
    }
}
