//! Reads GBNF.

use std::collections::HashMap;

use super::{Alternatives, Item};
use crate::limits;

/// The rules of a grammar, that of `root` first, or what is wrong with it.
pub fn rules(text: &str) -> Result<Vec<Alternatives>, String> {
    let mut reader = Reader { text, at: 0, names: HashMap::new(), rules: Vec::new(), depth: 0 };
    reader.number("root");
    reader.skip_space(true);
    while reader.at < text.len() {
        reader.rule().map_err(|what| {
            let line = text[..reader.at].matches('\n').count() + 1;
            format!("line {line}: {what}")
        })?;
        reader.skip_space(true);
    }
    let Reader { names, rules, .. } = reader;
    let missing = names.iter().find(|(_, number)| rules[**number].is_none());
    if let Some((name, _)) = missing {
        return Err(format!("there is no rule {name:?}"));
    }
    Ok(rules.into_iter().flatten().collect())
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    names: HashMap<&'t str, usize>,
    /// Rules by number; none where one was only mentioned so far.
    rules: Vec<Option<Alternatives>>,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        next
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Skips space and comments; line ends too where a rule goes on.
    fn skip_space(&mut self, over_lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\n' | '\r') if over_lines => self.at += 1,
                Some('#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    fn number(&mut self, name: &'t str) -> usize {
        let next = self.rules.len();
        let number = *self.names.entry(name).or_insert(next);
        if number == next {
            self.rules.push(None);
        }
        number
    }

    fn name(&mut self) -> Result<&'t str, String> {
        let rest = self.rest();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.at += length;
        if length > 0 { Ok(&rest[..length]) } else { Err("a name was expected".to_string()) }
    }

    fn rule(&mut self) -> Result<(), String> {
        let name = self.name()?;
        self.skip_space(false);
        if !self.eat("::=") {
            return Err(format!("::= was expected behind {name}"));
        }
        let number = self.number(name);
        if self.rules[number].is_some() {
            return Err(format!("there are two rules {name}"));
        }
        self.skip_space(true);
        let alternatives = self.alternatives(false)?;
        self.rules[number] = Some(alternatives);
        match self.peek() {
            None | Some('\n' | '\r') => Ok(()),
            Some(other) => Err(format!("{other:?} was not expected")),
        }
    }

    fn alternatives(&mut self, nested: bool) -> Result<Alternatives, String> {
        self.depth += 1;
        if self.depth > limits::GRAMMAR_DEPTH {
            return Err("brackets are nested too deeply".to_string());
        }
        let mut alternatives = vec![self.sequence(nested)?];
        while self.eat("|") {
            self.skip_space(true);
            alternatives.push(self.sequence(nested)?);
        }
        self.depth -= 1;
        Ok(alternatives)
    }

    fn sequence(&mut self, nested: bool) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        loop {
            let item = match self.peek() {
                Some('"') => Item::Text(self.literal()?),
                Some('[') => Item::Class(self.class()?),
                Some('<') => Item::Token(self.token()?),
                Some('.') => {
                    self.at += 1;
                    Item::Class("/(?s:.)/".to_string())
                }
                Some('(') => {
                    self.at += 1;
                    self.skip_space(true);
                    let inner = self.alternatives(true)?;
                    if !self.eat(")") {
                        return Err("a bracket is not closed".to_string());
                    }
                    Item::Group(inner)
                }
                Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                    let name = self.name()?;
                    Item::Rule(self.number(name))
                }
                Some('*' | '+' | '?' | '{') => return Err("nothing is there to be repeated".to_string()),
                _ => return Ok(items),
            };
            items.push(item);
            self.skip_space(nested);
            while let Some((least, most)) = self.repetition()? {
                if let Some(last) = items.pop() {
                    items.push(Item::Repeat(Box::new(last), least, most));
                }
                self.skip_space(nested);
            }
        }
    }

    fn repetition(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let simple = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let rest = self.rest();
                let end = rest.find('}').ok_or("a repetition has no end")?;
                self.at += end + 1;
                let number = |text: &str| {
                    let number = text.trim().parse::<u32>().ok();
                    number
                        .filter(|&number| u64::from(number) <= limits::REGEX_COUNT)
                        .ok_or_else(|| format!("{text:?} is not a count of up to {}", limits::REGEX_COUNT))
                };
                let (least, most) = match rest[1..end].split_once(',') {
                    None => (number(&rest[1..end])?, Some(number(&rest[1..end])?)),
                    Some((least, "")) => (number(least)?, None),
                    Some((least, most)) => (number(least)?, Some(number(most)?)),
                };
                if most.is_some_and(|most| most < least) {
                    return Err(format!("{} is turned round", &rest[..=end]));
                }
                return Ok(Some((least, most)));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(simple))
    }

    fn literal(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some('\n') | None => return Err("a text has no end".to_string()),
                Some(character) => text.push(character),
            }
        }
    }

    fn class(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = String::from(if self.eat("^") { "/[^" } else { "/[" });
        let empty = out.len();
        loop {
            let first = match self.next() {
                Some(']') if out.len() == empty => return Err("a class is empty".to_string()),
                Some(']') => return Ok(out + "]/"),
                Some('\\') => self.escaped()?,
                Some('\n') | None => return Err("a class has no end".to_string()),
                Some(character) => character,
            };
            out.push_str(&crate::lark::literal(&first.to_string()));
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            if is_range {
                self.at += 1;
                let last = match self.next() {
                    Some('\\') => self.escaped()?,
                    Some(character) => character,
                    None => return Err("a class has no end".to_string()),
                };
                if last < first {
                    return Err(format!("the range {first}-{last} is turned round"));
                }
                out.push('-');
                out.push_str(&crate::lark::literal(&last.to_string()));
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/' | '\'')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            other => return Err(format!("\\{} is not known", other.unwrap_or(' '))),
        };
        let code = self.rest().get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += if code.is_some() { digits } else { 0 };
        code.and_then(char::from_u32).ok_or_else(|| "an escape is not a character".to_string())
    }

    fn token(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let end = rest.find('>').ok_or("a token has no end")?;
        let token = &rest[..=end];
        if token.contains(char::is_whitespace) || token.len() < 3 {
            return Err(format!("{token} is not a token"));
        }
        self.at += end + 1;
        Ok(token.to_string())
    }
}
