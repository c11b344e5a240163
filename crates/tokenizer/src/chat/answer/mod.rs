//! What a model answers, taken apart as it comes: reasoning, words, calls of tools.
//!
//! [`AnswerFormat`] knows the marks of a model's family, [`AnswerParser`] finds them in a text that comes in pieces.
//! Joined, the events are the same wherever the pieces are cut. Nothing is lost: what looks like a call and is none is
//! given back, with the reason. White space between marks and words is the template's and not part of either.

mod call;
mod format;
mod harmony;
mod held;
mod json;
mod literal;
pub mod marks;
mod named;
mod region;
mod scan;
mod table;
mod tagged;
mod tools;

pub use format::AnswerFormat;
pub use tools::Tools;

use call::CallWriter;
use format::{Calls, is_code};
use harmony::Channels;
use held::Held;
use region::{Progress, Reader};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerEvent {
    /// More of what the model thinks.
    Reasoning(String),
    /// More of what the model says.
    Text(String),
    /// A call begins.
    CallBegun {
        /// Which call of the answer, from 0.
        call: usize,
        /// The id that the model itself gave, where its format has one.
        id: Option<String>,
        /// The name of the tool.
        name: String,
    },
    /// More of a call's arguments: joined, they are the JSON object of [`AnswerEvent::CallFinished`].
    CallArguments {
        /// Which call.
        call: usize,
        /// The next characters.
        json: String,
    },
    /// A call is complete.
    CallFinished {
        /// Which call.
        call: usize,
        /// The id that the model itself gave.
        id: Option<String>,
        /// The name of the tool.
        name: String,
        /// The arguments: a JSON object.
        arguments: String,
    },
    /// What began as a call is none.
    CallBroken {
        /// Which call, if its beginning was reported.
        call: Option<usize>,
        /// All of its text, as the model wrote it.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The most bytes of one call. A longer one is given back.
const LONGEST_CALL: usize = 1 << 20;

/// Takes an answer apart.
#[derive(Debug)]
pub struct AnswerParser {
    format: AnswerFormat,
    tools: Tools,
    held: Held,
    state: State,
    out: CallWriter,
    /// White space that is part of the text only if text follows it.
    space: String,
    /// Whether white space comes between a mark and the next words.
    trims: bool,
    /// Whether only white space has come since the beginning or the last mark.
    at_start: bool,
}

#[derive(Debug)]
enum State {
    Text,
    Reasoning,
    Calls(Reader),
    /// In what is no call, up to the mark that should end it.
    Broken(String),
    Channels(Channels),
}

impl AnswerParser {
    /// For the answer to a prompt that a template wrote, with the tools that it offers. Without tools nothing is taken
    /// for a call.
    pub fn new(format: &AnswerFormat, prompt: &str, tools: &Tools) -> AnswerParser {
        let mut format = format.clone();
        let harmony = match &format.marks.calls {
            Some(Calls::Harmony(harmony)) => Some(Channels::new(harmony.clone(), !tools.is_empty())),
            _ => None,
        };
        if tools.is_empty() {
            format.marks.calls = None;
        }
        let is_begun = format.is_reasoning_begun(prompt);
        let state = match harmony {
            Some(channels) => State::Channels(channels),
            None if is_begun => State::Reasoning,
            None => State::Text,
        };
        AnswerParser {
            trims: is_begun,
            at_start: true,
            format,
            tools: tools.clone(),
            held: Held::default(),
            state,
            out: CallWriter::default(),
            space: String::new(),
        }
    }

    /// The same for an answer of which some is there already, see [`AnswerFormat::beginning`]: what comes is the rest.
    pub fn after(mut self, beginning: &str) -> AnswerParser {
        self.push(beginning);
        // What might have become a mark, or space before words, was said too.
        self.held.take(self.held.text().len());
        self.space.clear();
        self
    }

    /// Whether what comes next is reasoning, unless it is a mark.
    pub fn is_reasoning(&self) -> bool {
        match &self.state {
            State::Reasoning => true,
            State::Channels(channels) => channels.is_reasoning(),
            _ => false,
        }
    }

    /// Takes in the next piece of the answer.
    pub fn push(&mut self, piece: &str) -> Vec<AnswerEvent> {
        self.held.push(piece);
        while self.step(false) {}
        self.out.events()
    }

    /// The answer is over: gives out what was held back, and what a call lacks.
    pub fn finish(&mut self) -> Vec<AnswerEvent> {
        while self.step(true) {}
        if !self.trims {
            let space = std::mem::take(&mut self.space);
            self.say(&space);
        }
        self.out.events()
    }

    /// Takes what can be decided from what is held. False when there is no more of that.
    fn step(&mut self, last: bool) -> bool {
        match &mut self.state {
            State::Text => self.read_text(last),
            State::Reasoning => self.read_reasoning(last),
            State::Calls(reader) => {
                let progress = reader.step(&mut self.held, &mut self.out, &self.tools, last);
                self.go_on(progress, last)
            }
            State::Broken(_) => self.read_broken(last),
            State::Channels(channels) => channels.step(&mut self.held, &mut self.out, last),
        }
    }

    fn read_text(&mut self, last: bool) -> bool {
        if self.at_start && self.begins_with_mark() {
            return true;
        }
        if self.at_start && self.may_begin_with_mark(last) {
            return false;
        }
        let open = self.format.marks.calls.as_ref().and_then(Reader::opening).unwrap_or_default().to_string();
        let begin = self.format.marks.reasoning.as_ref().map(|reasoning| reasoning.begin.to_string());
        let begin = begin.filter(|begin| begin.starts_with(is_code)).unwrap_or_default();
        let around = self.format.marks.around.iter().map(|mark| mark.as_ref());
        let marks: Vec<&str> =
            [open.as_str(), begin.as_str()].into_iter().chain(around).filter(|m| !m.is_empty()).collect();
        let Some((at, which)) = self.held.find(&marks) else {
            let free = if last { self.held.text().len() } else { self.held.free(&marks) };
            let keeps_space = !open.is_empty() || !begin.is_empty();
            let text = self.held.take(free);
            self.words(&text, keeps_space);
            return false;
        };
        let found = marks[which].to_string();
        let text = self.held.take(at);
        self.words(&text, true);
        if found == begin {
            self.held.take(found.len());
            self.begin(State::Reasoning);
        } else if found == open {
            self.open_calls(found.len());
        } else {
            self.held.take(found.len());
            self.begin(State::Text);
        }
        true
    }

    /// Whether the answer begins with a mark that has a meaning there only; then the state is the next one.
    fn begins_with_mark(&mut self) -> bool {
        let text = self.held.text();
        let lead = text.len() - text.trim_start().len();
        let lead = self.held.take(lead);
        self.words(&lead, true);
        let begin = self.format.marks.reasoning.as_ref().map(|reasoning| reasoning.begin.to_string());
        if begin.is_some_and(|begin| self.held.skip_mark(&begin)) {
            self.begin(State::Reasoning);
            return true;
        }
        let is_call = self.may_be_bare() && self.held.text().starts_with('{');
        if is_call {
            self.held.recording = true;
            let reader = self.format.marks.calls.as_ref().and_then(|calls| Reader::new(calls, true));
            self.state = reader.map_or(State::Text, State::Calls);
        }
        is_call
    }

    /// Whether a call may come without a mark.
    fn may_be_bare(&self) -> bool {
        matches!(&self.format.marks.calls, Some(Calls::Json(json)) if json.bare)
    }

    /// Whether more text could make the beginning such a mark.
    fn may_begin_with_mark(&mut self, last: bool) -> bool {
        let begin =
            self.format.marks.reasoning.as_ref().map(|reasoning| reasoning.begin.as_ref()).unwrap_or("");
        if !last && (self.held.text().is_empty() || self.held.may_become(begin)) {
            return true;
        }
        self.at_start = false;
        false
    }

    fn read_reasoning(&mut self, last: bool) -> bool {
        let Some(reasoning) = &self.format.marks.reasoning else { return false };
        let end = reasoning.end.to_string();
        // A call that is opened by a control token ends the reasoning too.
        let open = self.format.marks.calls.as_ref().and_then(Reader::opening).unwrap_or_default().to_string();
        let open = Some(open).filter(|open| open.starts_with(is_code));
        let marks: Vec<&str> = [Some(end.as_str()), open.as_deref()].into_iter().flatten().collect();
        let Some((at, which)) = self.held.find(&marks) else {
            let free = if last { self.held.text().len() } else { self.held.free(&marks) };
            let text = self.held.take(free);
            self.words(&text, true);
            return false;
        };
        let text = self.held.take(at);
        self.words(&text, true);
        match which {
            0 => {
                self.held.take(end.len());
                self.begin(State::Text);
            }
            _ => self.open_calls(marks[1].len()),
        }
        true
    }

    /// Everything up to the mark that ends a broken call belongs to it.
    fn read_broken(&mut self, last: bool) -> bool {
        let State::Broken(reason) = &self.state else { return false };
        let reason = reason.clone();
        let close = self.format.marks.calls.as_ref().map(Reader::closing).unwrap_or_default().to_string();
        let found = if close.is_empty() { None } else { self.held.find(&[&close]) };
        let is_long = self.held.taken.len() + self.held.text().len() > LONGEST_CALL;
        let length = match found {
            Some((at, _)) => at + close.len(),
            None if last || is_long => self.held.text().len(),
            None => return false,
        };
        self.held.take(length);
        self.held.recording = false;
        let text = without_codes(&std::mem::take(&mut self.held.taken));
        self.out.broken(text, reason);
        self.begin(State::Text);
        true
    }

    fn open_calls(&mut self, length: usize) {
        self.held.recording = true;
        self.held.take(length);
        if self.may_be_bare() {
            // What follows may be words, to which the mark does not belong.
            self.held.taken.clear();
        }
        let reader = self.format.marks.calls.as_ref().and_then(|calls| Reader::new(calls, false));
        self.begin(reader.map_or(State::Text, State::Calls));
    }

    /// Enters a state behind a mark, which swallows white space on both sides.
    fn begin(&mut self, state: State) {
        self.space.clear();
        self.trims = true;
        self.at_start = true;
        self.state = state;
    }

    fn go_on(&mut self, progress: Progress, last: bool) -> bool {
        let is_long = self.held.taken.len() + self.held.text().len() > LONGEST_CALL;
        match progress {
            Progress::More if is_long => {
                self.state = State::Broken(format!("it is longer than {LONGEST_CALL} bytes"));
            }
            Progress::More if last && !(self.held.taken.is_empty() && self.held.text().is_empty()) => {
                self.state = State::Broken("it is not complete".to_string());
            }
            Progress::More => return false,
            Progress::Again => {}
            Progress::End => {
                self.held.recording = false;
                self.held.taken.clear();
                self.begin(State::Text);
            }
            Progress::Broken(reason) => self.state = State::Broken(reason),
            Progress::Words => {
                // No call after all: what was taken is the answer's beginning.
                self.held.recording = false;
                let text = std::mem::take(&mut self.held.taken);
                self.state = State::Text;
                self.at_start = false;
                self.words(&text, true);
            }
        }
        true
    }

    /// Gives out words; white space at their end waits for more, unless nothing can follow that would swallow it.
    fn words(&mut self, text: &str, keeps_space: bool) {
        let text = without_codes(text);
        let text = if self.trims { text.trim_start() } else { &text };
        if text.is_empty() {
            return;
        }
        self.trims = false;
        let end = if keeps_space { text.trim_end().len() } else { text.len() };
        let space = text[end..].to_string();
        if end > 0 {
            let said = std::mem::take(&mut self.space) + &text[..end];
            self.say(&said);
        }
        self.space.push_str(&space);
    }

    fn say(&mut self, text: &str) {
        match self.state {
            State::Reasoning => self.out.reasoning(text),
            _ => self.out.text(text),
        }
    }
}

fn without_codes(text: &str) -> String {
    text.chars().filter(|&character| !is_code(character)).collect()
}

#[cfg(test)]
mod tests;
