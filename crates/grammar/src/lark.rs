//! Grammars in Lark's notation as they come with requests: their size is checked, and schemas in them (`%json`) are
//! prepared like any other.

use serde_json::{Deserializer, Value};

use crate::{Error, Result, limits, schema};

/// The grammar for the compiler.
pub fn prepared(text: &str) -> Result<String> {
    limits::check("bytes of a grammar", text.len(), limits::GRAMMAR_BYTES)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let (mut terminals, mut quantifiers) = (0, 0);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => length_of_quoted(rest, '"'),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' => {
                let length = length_of_quoted(rest, '/');
                quantifiers += quantifiers_of(&rest[..length]);
                length
            }
            '%' if rest.starts_with("%json") => {
                let (schema, length) = embedded(&rest["%json".len()..])?;
                out.push_str("%json ");
                out.push_str(&schema.to_string());
                rest = &rest["%json".len() + length..];
                continue;
            }
            _ if first.is_ascii_alphabetic() => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let defines = rest[length..].trim_start().starts_with(':');
                terminals += usize::from(first.is_ascii_uppercase() && defines);
                length
            }
            _ => {
                quantifiers += quantifiers_of(&rest[..first.len_utf8()]);
                first.len_utf8()
            }
        };
        let (part, tail) = rest.split_at(length);
        out.push_str(part);
        rest = tail;
    }
    limits::check("terminals of a grammar", terminals, limits::TERMINALS)?;
    limits::check("repetitions in a grammar", quantifiers, limits::QUANTIFIERS)?;
    Ok(out)
}

/// A text as a regular expression between slashes.
pub fn literal(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            _ if character.is_alphanumeric() => out.push(character),
            _ => out.push_str(&format!("\\x{{{:X}}}", u32::from(character))),
        }
    }
    out
}

/// How many signs of repetition there are; those that mean themselves count too.
pub fn quantifiers_of(text: &str) -> usize {
    text.bytes().filter(|byte| matches!(byte, b'?' | b'*' | b'+' | b'{' | b'~')).count()
}

/// The bytes of a text in quotes, with them; one without an end goes on to the end.
fn length_of_quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The schema at the front of a text, prepared, and its length as it stands there.
fn embedded(text: &str) -> Result<(Value, usize)> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(schema)) => Ok((schema::prepare(&schema)?, values.byte_offset())),
        Some(Err(error)) => Err(refused(format!("what follows %json is not JSON: {error}"))),
        None => Err(refused("nothing follows %json".to_string())),
    }
}

fn refused(what: String) -> Error {
    Error::Refused { kind: "Lark grammar", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_prepared_and_all_else_is_kept() {
        let text = "start: A \"%json \\\"{\" /a%json[/]\\//i // %json 1\n# %json 2\nA: \"x\"~2";
        assert_eq!(prepared(text).unwrap(), text);
        let out = prepared("start: %json {\"title\": \"t\",\n \"const\": 1} \"x\"").unwrap();
        assert!(
            out.starts_with("start: %json {\"const\":1,\"x-guidance\":") && out.ends_with("} \"x\""),
            "{out}"
        );
        let error = prepared("start: %json {\"items\": {\"not\": {}}}").unwrap_err().to_string();
        assert!(error.contains("#/items: not: "), "{error}");
        assert!(prepared("start: %json {").is_err());
        assert!(prepared("start: %json").is_err());
    }

    #[test]
    fn terminals_and_repetitions_are_counted() {
        let many: String = (0..limits::TERMINALS + 1).map(|n| format!("T{n} : \"a\"\n")).collect();
        assert!(prepared(&many).unwrap_err().to_string().contains("terminals"));
        let many = format!("start: {}", "\"a\"? ".repeat(limits::QUANTIFIERS + 1));
        assert!(prepared(&many).unwrap_err().to_string().contains("repetitions"));
        assert!(prepared(&format!("start: \"{}\"", "?".repeat(limits::QUANTIFIERS + 1))).is_ok());
    }
}
