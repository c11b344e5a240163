//! Text of a conversation that must stay text.
//!
//! A message may say `<|im_end|>`. A template copies it into the prompt, where it must not end the message: only what
//! the template itself writes is structure. So before a template runs, each place in the messages at which a control
//! token could begin gets a character that no text has; it travels through whatever the template does with the
//! message, is taken out of the prompt again, and at its place no control token is read. Everything else is
//! encoded as if nothing had happened.

use super::{Error, Result, Tokenizer};
use minijinja::Value;
use minijinja::value::ValueKind;
use std::ops::{Range, RangeInclusive};

/// The characters that Unicode sets aside for such use inside a program and never assigns.
pub(super) const GUARDS: RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

/// How deep messages may be nested.
const DEEPEST: usize = 200;

/// A prompt that a chat template wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    /// Where no control token is read, in bytes, in order.
    guards: Vec<usize>,
}

impl Prompt {
    /// Takes the guards out of what a template wrote.
    pub(super) fn new(written: String, guard: Option<char>) -> Prompt {
        let Some(guard) = guard else { return Prompt { text: written, guards: Vec::new() } };
        let mut prompt = Prompt::default();
        for (number, part) in written.split(guard).enumerate() {
            if number > 0 {
                prompt.guards.push(prompt.text.len());
            }
            prompt.text.push_str(part);
        }
        prompt
    }

    /// The prompt as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether control tokens may be read at this place.
    pub(crate) fn is_open(&self, place: Range<usize>) -> bool {
        let next = self.guards.partition_point(|&guard| guard < place.start);
        self.guards.get(next).is_none_or(|&guard| guard >= place.end)
    }
}

/// The values with guards in their texts, and the character that guards; none where there is nothing to guard.
pub(super) fn guarded(values: [Value; 2], tokenizer: &Tokenizer) -> Result<([Value; 2], Option<char>)> {
    let mut seen = Seen::default();
    for value in &values {
        seen.look(value, tokenizer, 0)?;
    }
    if !seen.needs_guards {
        return Ok((values, None));
    }
    let guard = GUARDS.zip(0..).find(|(_, number)| seen.guards & 1 << number == 0).map(|(guard, _)| guard);
    let guard = guard.ok_or_else(|| {
        Error::Template(
            "the messages have all of the noncharacters U+FDD0 to U+FDEF: leave one out".to_string(),
        )
    })?;
    Ok((values.map(|value| with_guards(value, tokenizer, guard)), Some(guard)))
}

/// What the texts of a conversation have.
#[derive(Default)]
struct Seen {
    needs_guards: bool,
    /// Which of the guards they have already, by their numbers.
    guards: u32,
}

impl Seen {
    fn look(&mut self, value: &Value, tokenizer: &Tokenizer, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            return Err(Error::Template("the messages are nested too deeply".to_string()));
        }
        if let Some(text) = value.as_str() {
            self.needs_guards = self.needs_guards || !tokenizer.guards(text).is_empty();
            for character in text.chars().filter(|character| GUARDS.contains(character)) {
                self.guards |= 1 << (u32::from(character) - u32::from(*GUARDS.start()));
            }
            return Ok(());
        }
        if is_collection(value) {
            for item in items(value) {
                self.look(&item, tokenizer, depth + 1)?;
                if value.kind() == ValueKind::Map {
                    self.look(&value.get_item(&item).unwrap_or_default(), tokenizer, depth + 1)?;
                }
            }
        }
        Ok(())
    }
}

fn with_guards(value: Value, tokenizer: &Tokenizer, guard: char) -> Value {
    if let Some(text) = value.as_str() {
        let mut result = String::with_capacity(text.len() + 8);
        let mut from = 0;
        for place in tokenizer.guards(text) {
            result.push_str(&text[from..place]);
            result.push(guard);
            from = place;
        }
        if from == 0 && result.is_empty() {
            return value;
        }
        result.push_str(&text[from..]);
        return result.into();
    }
    match value.kind() {
        ValueKind::Map => Value::from_pairs(items(&value).map(|key| {
            let item = value.get_item(&key).unwrap_or_default();
            (with_guards(key, tokenizer, guard), with_guards(item, tokenizer, guard))
        })),
        _ if is_collection(&value) => items(&value).map(|item| with_guards(item, tokenizer, guard)).collect(),
        _ => value,
    }
}

fn is_collection(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
}

fn items(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}
