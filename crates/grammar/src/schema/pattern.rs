//! Regular expressions of JSON schema, which are JavaScript's, in the compiler's notation. The two mean different
//! things by classes, dots and escapes; what has no counterpart (looking around, references back) is refused.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use crate::{lark, limits};

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\t\n\x0B\x0C\r\x{FEFF}\x{2028}\x{2029}\p{Zs}";
/// What a dot matches.
const DOT: &str = r"[^\n\r\x{2028}\x{2029}]";

/// The compiler's form of a pattern, or what is wrong with it.
pub fn translated(pattern: &Value) -> Result<String, String> {
    let Some(text) = pattern.as_str() else { return Err(format!("{pattern} is not a text")) };
    if text.len() > limits::REGEX_BYTES {
        return Err(format!("it has {} bytes, at most {} are allowed", text.len(), limits::REGEX_BYTES));
    }
    if lark::quantifiers_of(text) > limits::QUANTIFIERS {
        return Err(format!("it has more than {} repetitions", limits::QUANTIFIERS));
    }
    let mut translation = Translation { rest: text.chars().peekable(), out: String::new() };
    translation.run().map_err(|what| format!("{text:?}: {what}"))?;
    let mut builder = llguidance::derivre::RegexBuilder::new();
    match builder.mk_regex_for_serach(&translation.out) {
        Ok(_) => Ok(translation.out),
        // The parser draws a picture of the place; its last line says what is wrong.
        Err(error) => {
            let message = error.to_string();
            Err(format!(
                "{text:?}: {}",
                message.lines().last().unwrap_or_default().trim_start_matches("error: ")
            ))
        }
    }
}

struct Translation<'t> {
    rest: Peekable<Chars<'t>>,
    out: String,
}

/// Part of a class.
enum Item {
    One(char),
    /// A hyphen, which joins what is around it unless that is a set or nothing.
    Hyphen,
    /// The inside of a class, and whether it is turned round.
    Set(String, bool),
}

impl Item {
    /// The character that it is where it joins nothing; sets are none.
    fn character(&self) -> char {
        match self {
            Item::One(character) => *character,
            Item::Hyphen | Item::Set(..) => '-',
        }
    }
}

impl Translation<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape()?,
                '.' => self.out.push_str(DOT),
                '[' => self.class()?,
                '(' => self.group()?,
                '{' => self.count()?,
                '^' | '$' | '|' | ')' | '*' | '+' | '?' => self.out.push(character),
                _ => self.literal(character),
            }
        }
        Ok(())
    }

    fn literal(&mut self, character: char) {
        push_literal(&mut self.out, character);
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => {
                self.out.push_str("?:");
                Ok(())
            }
            Some('<') if !matches!(self.rest.peek(), Some('=' | '!')) => {
                // A name, which nothing refers to.
                self.rest.by_ref().find(|&character| character == '>');
                Ok(())
            }
            Some('=' | '!' | '<') => Err("looking ahead or back is not supported".to_string()),
            _ => Err("such a group is not supported".to_string()),
        }
    }

    /// `{2}`, `{2,}` and `{2,5}` are counts, all else is text.
    fn count(&mut self) -> Result<(), String> {
        let ahead: String = self.rest.clone().take_while(|&character| character != '}').collect();
        let (least, most) = ahead.split_once(',').unwrap_or((&ahead, &ahead));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(least) || !(most.is_empty() || is_number(most)) {
            self.literal('{');
            return Ok(());
        }
        for number in [least, most].into_iter().filter(|number| !number.is_empty()) {
            if number.parse::<u64>().is_ok_and(|number| number <= limits::REGEX_COUNT) {
                continue;
            }
            return Err(format!("{number} repetitions are more than {}", limits::REGEX_COUNT));
        }
        self.rest.by_ref().find(|&character| character == '}');
        self.out.push_str(&format!("{{{ahead}}}"));
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.escaped(false)? {
            Item::Set(set, turned) => self.out.push_str(&class(&set, turned)),
            item => self.literal(item.character()),
        }
        Ok(())
    }

    /// What an escape stands for.
    fn escaped(&mut self, in_class: bool) -> Result<Item, String> {
        let character = self.rest.next().ok_or("it ends with a backslash")?;
        let one = |character: char| Ok(Item::One(character));
        match character {
            'd' | 'D' => Ok(Item::Set(DIGIT.to_string(), character == 'D')),
            'w' | 'W' => Ok(Item::Set(WORD.to_string(), character == 'W')),
            's' | 'S' => Ok(Item::Set(SPACE.to_string(), character == 'S')),
            'p' | 'P' => Ok(Item::Set(self.property()?, character == 'P')),
            'n' => one('\n'),
            'r' => one('\r'),
            't' => one('\t'),
            'v' => one('\u{b}'),
            'f' => one('\u{c}'),
            'b' if in_class => one('\u{8}'),
            'b' | 'B' => Err("edges of words are not supported".to_string()),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => one('\0'),
            '0'..='9' | 'k' => Err("references back are not supported".to_string()),
            'c' => match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => one(char::from(letter as u8 % 32)),
                _ => Err("\\c without a letter".to_string()),
            },
            'x' => self.code(2).and_then(scalar).map(Item::One),
            'u' if self.rest.next_if_eq(&'{').is_some() => {
                let digits: String =
                    self.rest.by_ref().take_while(|&character| character != '}').take(7).collect();
                let code = u32::from_str_radix(&digits, 16).map_err(|_| format!("\\u{{{digits}}}"))?;
                scalar(code).map(Item::One)
            }
            'u' => self.unit().map(Item::One),
            _ if character.is_ascii_alphanumeric() => Err(format!("\\{character} is not known")),
            _ => one(character),
        }
    }

    /// The inside of `{…}` behind `\p`.
    fn property(&mut self) -> Result<String, String> {
        if self.rest.next_if_eq(&'{').is_none() {
            return Err("\\p without a property".to_string());
        }
        let name: String = self.rest.by_ref().take_while(|&character| character != '}').collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '=');
        match name.chars().all(is_plain) {
            true => Ok(format!("\\p{{{name}}}")),
            false => Err(format!("\\p{{{name}}} is not known")),
        }
    }

    fn code(&mut self, digits: usize) -> Result<u32, String> {
        let text: String = self.rest.by_ref().take(digits).collect();
        match u32::from_str_radix(&text, 16) {
            Ok(code) if text.len() == digits => Ok(code),
            _ => Err(format!("{text:?} is not a number of {digits} digits")),
        }
    }

    /// The character of `\uXXXX`, or of the two that a pair is.
    fn unit(&mut self) -> Result<char, String> {
        let first = self.code(4)?;
        if !(0xd800..0xdc00).contains(&first) {
            return scalar(first);
        }
        if self.rest.next() != Some('\\') || self.rest.next() != Some('u') {
            return Err("half of a character".to_string());
        }
        let second = self.code(4)?;
        let pair = char::decode_utf16([first as u16, second as u16]).next();
        pair.and_then(Result::ok).ok_or("half of a character".to_string())
    }

    fn class(&mut self) -> Result<(), String> {
        let turned = self.rest.next_if_eq(&'^').is_some();
        let mut items: Vec<Item> = Vec::new();
        loop {
            match self.rest.next().ok_or("a class has no end")? {
                ']' => break,
                '\\' => {
                    let item = self.escaped(true)?;
                    items.push(item);
                }
                '-' => items.push(Item::Hyphen),
                character => items.push(Item::One(character)),
            }
        }
        let mut inside = String::new();
        let mut rest = items.as_slice();
        while let [item, tail @ ..] = rest {
            rest = match (item, tail) {
                (Item::Set(set, turned), _) => {
                    inside.push_str(&class(set, *turned));
                    tail
                }
                (first, [Item::Hyphen, last @ (Item::One(_) | Item::Hyphen), tail @ ..]) => {
                    let (first, last) = (first.character(), last.character());
                    if first > last {
                        return Err(format!("the range {first}-{last} is turned round"));
                    }
                    push_literal(&mut inside, first);
                    inside.push('-');
                    push_literal(&mut inside, last);
                    tail
                }
                (item, _) => {
                    push_literal(&mut inside, item.character());
                    tail
                }
            };
        }
        match (inside.is_empty(), turned) {
            (true, true) => self.out.push_str("(?s:.)"),
            (true, false) => return Err("an empty class matches nothing".to_string()),
            _ => self.out.push_str(&class(&inside, turned)),
        }
        Ok(())
    }
}

fn class(inside: &str, turned: bool) -> String {
    format!("[{}{inside}]", if turned { "^" } else { "" })
}

/// A character that means itself, in a class and outside. Slashes and line ends are the compiler's own to escape.
fn push_literal(out: &mut String, character: char) {
    match character {
        _ if character.is_alphanumeric() || character == '/' => out.push(character),
        _ => out.push_str(&format!("\\x{{{:X}}}", u32::from(character))),
    }
}

fn scalar(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| "half of a character".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::RegexBuilder;

    fn matches(pattern: &str, text: &str) -> bool {
        let translated = translated(&pattern.into()).unwrap();
        let mut builder = RegexBuilder::new();
        let expression = builder.mk_regex_for_serach(&translated).unwrap();
        builder.to_regex(expression).is_match(text)
    }

    #[test]
    fn means_what_it_means_in_javascript() {
        let cases = [
            ("^a[[]b$", "a[b", true),
            ("^[a[b]]$", "a]", true),
            ("^[a[b]]$", "[]", true),
            ("^[a[b]]$", "a", false),
            ("^[a&&b]+$", "&a&b", true),
            ("^[--/]$", ".", true),
            ("^[a-]$", "-", true),
            ("^[\\w-]+$", "a-b_9", true),
            ("^[\\w-]+$", "é", false),
            ("^\\d+$", "42", true),
            ("^\\d+$", "߀", false),
            ("^\\s$", "\u{feff}", true),
            ("^\\S+$", "ab", true),
            ("^[^\\s]+$", "a b", false),
            ("^.$", "\r", false),
            ("^.$", "🐲", true),
            ("^\\u0041\\x42$", "AB", true),
            ("^\\uD83D\\uDC32$", "🐲", true),
            ("^\\u{1F432}$", "🐲", true),
            ("^\\p{Lu}$", "Ä", true),
            ("^\\cA$", "\u{1}", true),
            ("^a{2,3}$", "aaaa", false),
            ("^a{,3}$", "a{,3}", true),
            ("^{a}$", "{a}", true),
            ("^(?<year>a)b$", "ab", true),
            ("^\\/a\\-\\<\\>$", "/a-<>", true),
            ("b", "abc", true),
            ("^(a|b$)", "cb", false),
            ("^(a|b$)", "bc", false),
            ("^(a|b$)", "ac", true),
            ("^[^]$", "\n", true),
            ("^#$", "#", true),
            ("^a b$", "a b", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn refuses_what_has_no_counterpart() {
        let cases = [
            ("(?=a)", "looking"),
            ("(?!a)", "looking"),
            ("(?<=a)b", "looking"),
            ("(a)\\1", "back"),
            ("\\bword\\b", "edges"),
            ("(?i)a", "group"),
            ("a{1,100000}", "repetitions"),
            ("(a", "unclosed"),
            ("a\\", "backslash"),
            ("[b-a]", "turned"),
            ("[a", "no end"),
            ("*a", "repetition"),
            ("\\a", "not known"),
            ("a$b", "lookaround"),
        ];
        for (pattern, what) in cases {
            let error = translated(&pattern.into()).unwrap_err();
            assert!(error.contains(what), "{pattern}: {error}");
        }
    }
}
