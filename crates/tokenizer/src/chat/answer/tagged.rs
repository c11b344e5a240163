//! Calls whose arguments stand one by one between tags: `<function=name><parameter=key>value</parameter>…`.
//!
//! Values are written without quotes where they are text: the tool's schema says which are, and where it is silent,
//! what reads as JSON is JSON.

use super::call::CallWriter;
use super::format::TaggedCalls;
use super::held::Held;
use super::literal;
use super::region::{LONGEST_NAME, Progress, finish};
use super::tools::{Kind, Tools};

/// Reads tagged calls.
#[derive(Debug)]
pub(super) struct TaggedReader {
    calls: TaggedCalls,
    phase: Phase,
    name: String,
    key: String,
    /// What stands between a key and its value.
    attributes: String,
    /// How many arguments the call has by now.
    arguments: usize,
}

#[derive(Debug)]
enum Phase {
    Between,
    Name,
    /// Before a key, or the end of the call.
    Arguments,
    Key,
    Attributes,
    Value,
}

impl TaggedReader {
    pub fn new(calls: &TaggedCalls) -> TaggedReader {
        let phase = if calls.begin.is_empty() { Phase::Name } else { Phase::Between };
        let calls = calls.clone();
        TaggedReader {
            calls,
            phase,
            name: String::new(),
            key: String::new(),
            attributes: String::new(),
            arguments: 0,
        }
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, tools: &Tools, last: bool) -> Progress {
        match self.phase {
            Phase::Between => self.between(held, last),
            Phase::Name => self.name(held, out, last),
            Phase::Arguments => self.arguments(held, out, last),
            Phase::Key => {
                let key = match name_up_to(held, &self.calls.key_end) {
                    Ok(key) => key,
                    Err(progress) => return progress,
                };
                self.key = key.trim().to_string();
                self.attributes.clear();
                self.phase = if self.calls.value.is_empty() { Phase::Value } else { Phase::Attributes };
                Progress::Again
            }
            Phase::Attributes => {
                self.attributes = match name_up_to(held, &self.calls.value) {
                    Ok(attributes) => attributes,
                    Err(progress) => return progress,
                };
                self.phase = Phase::Value;
                Progress::Again
            }
            Phase::Value => {
                let Some(value) = up_to(held, &self.calls.value_end) else { return Progress::More };
                self.write(&value, out, tools);
                self.phase = Phase::Arguments;
                Progress::Again
            }
        }
    }

    fn between(&mut self, held: &mut Held, last: bool) -> Progress {
        held.skip(char::is_whitespace);
        if held.skip_mark(&self.calls.region.close) {
            return Progress::End;
        }
        if held.skip_mark(&self.calls.begin) {
            self.phase = Phase::Name;
            return Progress::Again;
        }
        let may_be = held.may_become(&self.calls.region.close) || held.may_become(&self.calls.begin);
        if may_be && (!last || !held.text().is_empty()) {
            return Progress::More;
        }
        match held.text().is_empty() && held.taken.trim().is_empty() {
            true => Progress::End,
            false => Progress::Broken(format!("{} was expected", self.calls.begin)),
        }
    }

    fn name(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> Progress {
        let name = if self.calls.name_end.is_empty() {
            // The name ends where a line or a tag does; a mark that is begun could still become one.
            held.skip(char::is_whitespace);
            let text = held.text();
            let end = [self.calls.key.as_ref(), self.calls.region.close.as_ref(), "\n"]
                .iter()
                .filter_map(|mark| text.find(mark))
                .min();
            match end {
                Some(end) if end <= LONGEST_NAME => held.take(end),
                None if !last && text.len() <= LONGEST_NAME => return Progress::More,
                _ => return Progress::Broken("it has no name".to_string()),
            }
        } else {
            match name_up_to(held, &self.calls.name_end) {
                Ok(name) => name,
                Err(progress) => return progress,
            }
        };
        self.name = name.trim().to_string();
        if self.name.is_empty() {
            return Progress::Broken("it has no name".to_string());
        }
        out.begin(None, &self.name);
        self.arguments = 0;
        self.phase = Phase::Arguments;
        Progress::Again
    }

    fn arguments(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> Progress {
        held.skip(char::is_whitespace);
        if held.skip_mark(&self.calls.key) {
            self.phase = Phase::Key;
            return Progress::Again;
        }
        // A call that is its own region ends with the region.
        let own = self.calls.end.is_empty();
        let end = if own { &self.calls.region.close } else { &self.calls.end };
        if held.skip_mark(end) {
            out.arguments(if self.arguments == 0 { "{}" } else { "}" });
            if let Err(reason) = finish(held, out) {
                return Progress::Broken(reason);
            }
            self.phase = Phase::Between;
            return if own { Progress::End } else { Progress::Again };
        }
        if held.text().is_empty() || (!last && (held.may_become(end) || held.may_become(&self.calls.key))) {
            return Progress::More;
        }
        Progress::Broken(format!("{} or {end} was expected", self.calls.key))
    }

    /// Writes one argument as JSON.
    fn write(&mut self, value: &str, out: &mut CallWriter, tools: &Tools) {
        // Some templates put values on lines of their own.
        let value = match value.strip_prefix('\n') {
            Some(lines) => lines.strip_suffix('\n').unwrap_or(lines),
            None => value,
        };
        let kind = match &self.attributes {
            told if told.contains("string=\"true\"") => Kind::Text,
            told if told.contains("string=\"false\"") => Kind::Other,
            _ => tools.kind(&self.name, &self.key),
        };
        let json = match kind {
            Kind::Text => None,
            Kind::Other | Kind::Either => literal::value(value.trim()),
        };
        let comma = if self.arguments == 0 { "{" } else { ", " };
        self.arguments += 1;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let json = json.unwrap_or_else(|| quoted(value));
        out.arguments(&format!("{comma}{}: {json}", quoted(&self.key)));
    }
}

/// What comes before a mark, which is taken too.
fn up_to(held: &mut Held, mark: &str) -> Option<String> {
    let (at, _) = held.find(&[mark])?;
    let mut text = held.take(at + mark.len());
    text.truncate(at);
    Some(text)
}

/// The same for something short.
fn name_up_to(held: &mut Held, mark: &str) -> Result<String, Progress> {
    match held.find(&[mark]) {
        Some((at, _)) if at <= LONGEST_NAME => up_to(held, mark).ok_or(Progress::More),
        None if held.text().len() <= LONGEST_NAME + mark.len() => Err(Progress::More),
        _ => Err(Progress::Broken("a name has no end".to_string())),
    }
}
