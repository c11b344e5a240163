//! Writes grammars in Lark's notation.

use gleed_tokenizer::marks::MarkPart;

use crate::lark::literal;

/// A grammar that is being written.
#[derive(Default)]
pub struct Writer {
    text: String,
    /// Whether the terminal for commas is used.
    pub needs_comma: bool,
}

impl Writer {
    /// Defines a rule, or a terminal where the name is in capitals.
    pub fn rule(&mut self, name: &str, body: &str) {
        let body = if body.trim().is_empty() { "\"\"" } else { body };
        self.text.push_str(&format!("{name}: {body}\n"));
    }

    /// Defines a text that fits an expression and what ends it, the first such mark, and gives what stands for both.
    pub fn until(&mut self, name: &str, end: &[MarkPart], fits: &str, may_be_empty: bool) -> String {
        match end {
            [MarkPart::Text(text), rest @ ..] if matches!(rest, [MarkPart::Token(_), ..]) => {
                // The token says where the text before it ends.
                let terminal = name.to_uppercase();
                self.rule(&terminal, &format!("( {fits} ) {}", quoted(text)));
                format!("{terminal} {}", sequence(rest))
            }
            [MarkPart::Text(text), rest @ ..] => {
                let suffix = quoted(text);
                self.text.push_str(&format!("{name}[suffix={suffix}]: {fits} & {}\n", without(text)));
                format!("{name} {}", sequence(rest))
            }
            _ => {
                let terminal = name.to_uppercase();
                self.rule(&terminal, &format!("{fits} & /(?s:.+)/"));
                format!("{terminal}{} {}", if may_be_empty { "?" } else { "" }, sequence(end))
            }
        }
    }

    pub fn finish(mut self) -> String {
        if self.needs_comma {
            self.rule("COMMA", "/, ?/");
        }
        self.rule("SPACE", "/[ \\n\\t]{1,4}/");
        self.text
    }
}

/// A mark, or nothing.
pub fn sequence(mark: &[MarkPart]) -> String {
    let parts: Vec<String> = mark
        .iter()
        .map(|part| match part {
            MarkPart::Token(id) => format!("<[{id}]>"),
            MarkPart::Text(text) => quoted(text),
        })
        .collect();
    parts.join(" ")
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text of a mark as a regular expression.
pub fn expression(mark: &[MarkPart]) -> String {
    mark.iter()
        .map(|part| match part {
            MarkPart::Token(_) => String::new(),
            MarkPart::Text(text) => literal(text),
        })
        .collect()
}

/// All texts that do not contain this one.
pub fn without(text: &str) -> String {
    format!("~/(?s:.*){}(?s:.*)/", literal(text))
}
