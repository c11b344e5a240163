//! Answers in messages, each with a header that names its channel: what is thought, what is said, what is called.
//!
//! `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{…}<|call|>`

use super::LONGEST_CALL;
use super::call::CallWriter;
use super::format::{Harmony, is_code};
use super::held::Held;
use super::region::LONGEST_NAME;
use super::without_codes;

/// Reads messages with headers.
#[derive(Debug)]
pub(super) struct Channels {
    marks: Harmony,
    /// Whether a message to a tool is a call.
    has_tools: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The prompt has written a header's beginning.
    First,
    Header,
    Text,
    Reasoning,
    Call,
}

impl Channels {
    pub fn new(marks: Harmony, has_tools: bool) -> Channels {
        Channels { marks, has_tools, phase: Phase::First }
    }

    pub fn is_reasoning(&self) -> bool {
        self.phase == Phase::Reasoning
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> bool {
        match self.phase {
            Phase::First | Phase::Header => self.header(held, out, last),
            Phase::Text | Phase::Reasoning | Phase::Call => self.body(held, out, last),
        }
    }

    fn header(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> bool {
        let marks = &self.marks;
        if self.phase == Phase::Header {
            held.skip(char::is_whitespace);
        }
        let begins: &[&str] = match self.phase {
            Phase::First => &[&marks.channel, " to=", &marks.message, &marks.start],
            _ => &[&marks.start],
        };
        if held.text().is_empty() {
            return false;
        }
        let is_header = begins.iter().any(|begin| held.text().starts_with(begin));
        if !is_header {
            if !last && begins.iter().any(|begin| held.may_become(begin)) {
                return false;
            }
            // A model that writes no header says something all the same.
            self.phase = Phase::Text;
            return true;
        }
        let limit = LONGEST_NAME + marks.message.len();
        let Some((at, _)) = held.find(&[&marks.message]).filter(|&(at, _)| at <= LONGEST_NAME) else {
            if held.text().len() > limit {
                self.phase = Phase::Text;
                return true;
            }
            if last {
                // A header alone says nothing.
                held.take(held.text().len());
            }
            return false;
        };
        let header = held.take(at + self.marks.message.len());
        self.phase = self.open(&header[..at], out);
        true
    }

    /// What a message is, by its header.
    fn open(&self, header: &str, out: &mut CallWriter) -> Phase {
        let word = |text: &str| -> String {
            let end = text.find(|c: char| c.is_whitespace() || c == '<' || is_code(c));
            text[..end.unwrap_or(text.len())].to_string()
        };
        let channel = header.split_once(self.marks.channel.as_ref()).map(|(_, rest)| word(rest));
        if let Some((_, rest)) = header.split_once("to=").filter(|_| self.has_tools) {
            let recipient = word(rest);
            let name = recipient.strip_prefix("functions.").unwrap_or(&recipient);
            if !name.is_empty() {
                out.begin(None, name);
                return Phase::Call;
            }
        }
        if channel.as_deref() == Some("analysis") { Phase::Reasoning } else { Phase::Text }
    }

    fn body(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> bool {
        let marks = &self.marks;
        let ends: [&str; 4] = [&marks.end, &marks.call, &marks.last, &marks.start];
        let found = held.find(&ends);
        let length = match found {
            Some((at, _)) => at,
            None if last => held.text().len(),
            None => held.free(&ends),
        };
        let text = without_codes(&held.take(length));
        match self.phase {
            Phase::Reasoning => out.reasoning(&text),
            Phase::Call => arguments(&text, out, found.is_some() || last),
            _ => out.text(&text),
        }
        let Some((_, which)) = found else { return false };
        // The start of the next message ends one that has no end.
        if ends[which] != self.marks.start {
            held.take(ends[which].len());
        }
        self.phase = Phase::Header;
        true
    }
}

/// More of a call's arguments, and their end.
fn arguments(text: &str, out: &mut CallWriter, ends: bool) {
    if !out.has_open() {
        // A call that was given back for its length goes on.
        return out.text(text);
    }
    out.arguments(text);
    let written = out.written();
    let problem = match ends {
        true if written.trim().is_empty() => {
            out.arguments("{}");
            out.finish().err()
        }
        true => out.finish().err(),
        false => (written.len() > LONGEST_CALL).then(|| format!("it is longer than {LONGEST_CALL} bytes")),
    };
    if let Some(reason) = problem {
        out.broken(out.written().to_string(), reason);
    }
}
