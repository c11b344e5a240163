//! `tojson` as Python writes it: a space after commas and colons, nothing escaped for HTML, characters
//! beyond ASCII as they are.

use super::guard::GUARDS;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// How deep values may be nested.
const DEEPEST: usize = 200;

/// The `tojson` filter with Python's keywords.
pub(super) fn tojson(value: &Value, indent: Option<Value>, arguments: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => arguments.get::<Option<Value>>("indent")?,
    };
    let indent = indent.filter(|indent| !indent.is_none()).map(usize::try_from).transpose()?;
    let separators = arguments.get::<Option<Vec<String>>>("separators")?;
    let (comma, colon) = match separators.as_deref() {
        Some([comma, colon]) => (comma.as_str(), colon.as_str()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson takes two separators")),
        // Python leaves out the space before a line break.
        None => (if indent.is_some() { "," } else { ", " }, ": "),
    };
    let style = Style {
        indent: indent.map(|width| width.min(16)),
        comma,
        colon,
        sort_keys: arguments.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ascii: arguments.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    arguments.assert_all_used()?;
    let mut text = String::new();
    style.write(value, 0, &mut text)?;
    Ok(text)
}

struct Style<'a> {
    /// Spaces per level; all on one line without.
    indent: Option<usize>,
    comma: &'a str,
    colon: &'a str,
    sort_keys: bool,
    /// Whether characters beyond ASCII are escaped.
    ascii: bool,
}

impl Style<'_> {
    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => text.push_str(&value.to_string()),
            ValueKind::Number => text.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items("[", "]", &items, depth, text, |item, text| {
                    self.write(item, depth + 1, text)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_items("{", "}", &keys, depth, text, |key, text| {
                    self.write_string(&key.to_string(), text);
                    text.push_str(self.colon);
                    self.write(&value.get_item(key)?, depth + 1, text)
                })?;
            }
            kind => {
                let message = format!("tojson: a value of kind {kind} is not JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn write_items(
        &self,
        open: &str,
        close: &str,
        items: &[Value],
        depth: usize,
        text: &mut String,
        write: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push_str(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                text.push_str(self.comma);
            }
            self.break_line(depth + 1, text);
            write(item, text)?;
        }
        if !items.is_empty() {
            self.break_line(depth, text);
        }
        text.push_str(close);
        Ok(())
    }

    fn break_line(&self, depth: usize, text: &mut String) {
        if let Some(width) = self.indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', width * depth));
        }
    }

    fn write_string(&self, string: &str, text: &mut String) {
        text.push('"');
        for c in string.chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                _ if c < ' ' || (self.ascii && !c.is_ascii() && !GUARDS.contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => text.push(c),
            }
        }
        text.push('"');
    }
}

/// A float as Python prints it.
fn float(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        let name = if number.is_nan() { "NaN" } else { "Infinity" };
        return format!("{}{name}", if number < 0.0 { "-" } else { "" });
    }
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = number.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
        }
    }
}
