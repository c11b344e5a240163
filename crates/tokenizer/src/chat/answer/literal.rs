//! Calls as a language writes them: Python's `[name(key=value), …]` and Gemma's `call:name{key:value}`.
//!
//! They are read when they are complete: nothing but the mark behind them says so.

use super::call::CallWriter;
use super::held::Held;
use super::region::{Progress, finish};
use serde_json::{Map, Value};

/// Reads calls in a language.
#[derive(Debug)]
pub(super) struct LiteralReader {
    close: String,
    /// What stands around strings in Gemma's language; none for Python's.
    quote: Option<String>,
}

impl LiteralReader {
    pub fn python(close: &str) -> LiteralReader {
        LiteralReader { close: close.to_string(), quote: None }
    }

    pub fn gemma(close: &str, quote: &str) -> LiteralReader {
        LiteralReader { close: close.to_string(), quote: Some(quote.to_string()) }
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> Progress {
        let (end, behind) = match held.find(&[&self.close]) {
            Some((at, _)) => (at, at + self.close.len()),
            // A model may end its turn without the mark.
            None if last => (held.text().len(), held.text().len()),
            None => return Progress::More,
        };
        let mut source = Source { rest: &held.text()[..end], quote: self.quote.as_deref() };
        let calls = match if self.quote.is_some() { source.gemma() } else { source.python() } {
            Ok(calls) => calls,
            Err(reason) => return Progress::Broken(reason),
        };
        held.take(behind);
        for (name, arguments) in calls {
            out.begin(None, &name);
            out.arguments(&Value::Object(arguments).to_string());
            if let Err(reason) = finish(held, out) {
                return Progress::Broken(reason);
            }
        }
        Progress::End
    }
}

/// The JSON of a value that is JSON or, as some templates print lists and maps, Python.
pub(super) fn value(text: &str) -> Option<String> {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Some(text.to_string());
    }
    let mut source = Source { rest: text, quote: None };
    let value = source.value(0).ok()?;
    // A text in quotes stays what it is.
    (source.rest.trim().is_empty() && !value.is_string()).then(|| value.to_string())
}

type Call = (String, Map<String, Value>);

/// How deep values may be nested.
const DEEPEST: usize = 64;

/// The text that is left to read.
struct Source<'a> {
    rest: &'a str,
    quote: Option<&'a str>,
}

impl<'a> Source<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, text: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) { Ok(()) } else { Err(self.unexpected(text)) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.rest.chars().next() {
            Some(found) => format!("{wanted:?} was expected, not {found:?}"),
            None => format!("it ends where {wanted:?} was expected"),
        }
    }

    /// Everything up to one of these characters.
    fn up_to(&mut self, ends: &[char]) -> &'a str {
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word.trim()
    }

    fn name(&mut self, ends: &[char]) -> Result<String, String> {
        self.skip_space();
        let name = self.up_to(ends);
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        match !name.is_empty() && name.chars().all(is_name) {
            true => Ok(name.to_string()),
            false => Err(format!("{name:?} is not a name")),
        }
    }

    /// `[name(key=value), …]`, or such calls in lines.
    fn python(&mut self) -> Result<Vec<Call>, String> {
        let in_list = self.eat("[");
        let mut calls = Vec::new();
        loop {
            self.skip_space();
            if if in_list { self.eat("]") } else { self.rest.is_empty() } {
                break;
            }
            let name = self.name(&['('])?;
            self.expect("(")?;
            let mut arguments = Map::new();
            while !self.eat(")") {
                let key = self.name(&['=', ',', ')'])?;
                self.expect("=")?;
                arguments.insert(key, self.value(0)?);
                if !self.eat(",") && !self.rest.trim_start().starts_with(')') {
                    return Err(self.unexpected(")"));
                }
            }
            calls.push((name, arguments));
            self.eat(",");
        }
        self.skip_space();
        match self.rest.is_empty() && !calls.is_empty() {
            true => Ok(calls),
            false if calls.is_empty() => Err("there is no call in it".to_string()),
            false => Err(self.unexpected("the end")),
        }
    }

    /// `call:name{key:value}`, once or several times.
    fn gemma(&mut self) -> Result<Vec<Call>, String> {
        let mut calls = Vec::new();
        loop {
            self.expect("call:")?;
            let name = self.name(&['{'])?;
            let Value::Object(arguments) = self.value(0)? else { return Err(self.unexpected("{")) };
            calls.push((name, arguments));
            self.skip_space();
            if self.rest.is_empty() {
                return Ok(calls);
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("its arguments are nested too deeply".to_string());
        }
        self.skip_space();
        if let Some(quote) = self.quote
            && self.eat(quote)
        {
            let (text, rest) = self.rest.split_once(quote).ok_or("a text has no end")?;
            self.rest = rest;
            return Ok(text.into());
        }
        match self.rest.chars().next() {
            Some('[') => self.list("[", "]", depth),
            Some('(') => self.list("(", ")", depth),
            Some('{') => self.object(depth),
            Some(mark @ ('"' | '\'')) => self.string(mark).map(Value::from),
            _ => word(self.up_to(&[',', ')', ']', '}', '\n'])),
        }
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Result<Value, String> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(",") && !self.rest.trim_start().starts_with(close) {
                return Err(self.unexpected(close));
            }
        }
        Ok(items.into())
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.expect("{")?;
        let mut fields = Map::new();
        while !self.eat("}") {
            self.skip_space();
            let quoted = self.quote.is_some_and(|quote| self.rest.starts_with(quote));
            let key = match self.rest.chars().next() {
                Some('"' | '\'') => self.value(depth + 1)?,
                _ if quoted => self.value(depth + 1)?,
                _ => self.up_to(&[':', ',', '}']).into(),
            };
            self.expect(":")?;
            let key = key.as_str().unwrap_or_default().to_string();
            fields.insert(key, self.value(depth + 1)?);
            if !self.eat(",") && !self.rest.trim_start().starts_with('}') {
                return Err(self.unexpected("}"));
            }
        }
        Ok(fields.into())
    }

    /// A string in quotes, with the escapes that Python and JSON have in common.
    fn string(&mut self, mark: char) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                _ if character == mark => {
                    self.rest = &self.rest[at + character.len_utf8()..];
                    return Ok(text);
                }
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('u') => text.push(unicode(&mut characters)?),
                    Some(escaped @ ('"' | '\'' | '\\' | '/')) => text.push(escaped),
                    // Python keeps what it does not know.
                    Some(other) => text.extend(['\\', other]),
                    None => break,
                },
                _ => text.push(character),
            }
        }
        Err("a text has no end".to_string())
    }
}

/// The character of `\uXXXX`, or of two of them where one is half of a pair.
fn unicode(characters: &mut impl Iterator<Item = (usize, char)>) -> Result<char, String> {
    let mut unit = || -> Result<u16, String> {
        let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
        u16::from_str_radix(&digits, 16).map_err(|_| format!("\\u{digits} is not a character"))
    };
    let first = unit()?;
    if !(0xd800..0xdc00).contains(&first) {
        return Ok(char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((_, 'u'))) => {}
        _ => return Err("half of a character".to_string()),
    }
    let digits: String = characters.take(4).map(|(_, digit)| digit).collect();
    let second = u16::from_str_radix(&digits, 16).map_err(|_| format!("\\u{digits} is not a character"))?;
    let mut pair = char::decode_utf16([first, second]);
    Ok(pair.next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// A number or a word of Python or JSON.
fn word(text: &str) -> Result<Value, String> {
    match text {
        "True" => Ok(true.into()),
        "False" => Ok(false.into()),
        "None" => Ok(Value::Null),
        _ => serde_json::from_str(text).map_err(|_| format!("{text:?} is not a value")),
    }
}
