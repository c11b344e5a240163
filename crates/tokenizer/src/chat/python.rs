//! Filters and tests where Python's Jinja and minijinja part ways.

use minijinja::Value;
use minijinja::value::{Kwargs, ValueKind};

/// The most spaces of one level; wider is a mistake or an attack.
const WIDEST: usize = 1000;

/// `is iterable`: everything that a Python loop takes, and so not `none`.
pub(super) fn is_iterable(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined
            | ValueKind::String
            | ValueKind::Bytes
            | ValueKind::Seq
            | ValueKind::Map
            | ValueKind::Iterable
    )
}

/// `indent`, which in Python keeps a line break at the end.
pub(super) fn indent(
    text: String,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, minijinja::Error> {
    let width = width.or(named.get("width")?);
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let space = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(space) => space.to_string(),
            None => " ".repeat(usize::try_from(width)?.min(WIDEST)),
        },
    };
    let mut result = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            result.push('\n');
        }
        if (number == 0 && first) || (number > 0 && (blank || !line.is_empty())) {
            result.push_str(&space);
        }
        result.push_str(line);
    }
    Ok(result)
}
