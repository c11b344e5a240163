//! Arguments one by one, for formats in which they are not a JSON object.

use gleed_tokenizer::marks::MarkPart;
use serde_json::Value;

use super::writer::{Writer, quoted};
use super::{Callable, one_of};
use crate::{Error, Result};

/// One argument of a tool.
pub struct Argument {
    pub key: String,
    pub is_required: bool,
    /// Whether its value is text, which some formats write without quotes.
    pub is_text: bool,
    schema: Value,
    /// The name of its rules.
    rule: String,
}

/// Keywords that an object may have whose arguments stand one by one.
const OF_OBJECTS: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

/// The arguments of a tool, in the order of its schema.
pub fn of(tool: &Callable) -> Result<Vec<Argument>> {
    let refuse = |what: &str| Err(Error::Calls(format!("the parameters of {:?} {what}", tool.name)));
    let Value::Object(root) = &tool.root else { return refuse("are not those of an object") };
    if let Some(other) = root.keys().find(|keyword| !OF_OBJECTS.contains(&keyword.as_str())) {
        return refuse(&format!("have {other}, which cannot be kept in this model's format"));
    }
    if root.get("type") != Some(&Value::from("object")) {
        return refuse("are not those of an object");
    }
    let required: Vec<&str> = root
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let none = serde_json::Map::new();
    let properties = root.get("properties").and_then(Value::as_object).unwrap_or(&none);
    if let Some(unknown) = required.iter().find(|name| !properties.contains_key(**name)) {
        return refuse(&format!("require {unknown:?} and do not say what it is"));
    }
    let argument = |(number, (key, schema)): (usize, (&String, &Value))| Argument {
        key: key.clone(),
        is_required: required.contains(&key.as_str()),
        // As it is read: by what the request says, whatever else the schema allows.
        is_text: tool.given["properties"][key].get("type") == Some(&Value::from("string")),
        schema: schema.clone(),
        rule: format!("{}p{number}", tool.prefix),
    };
    Ok(properties.iter().enumerate().map(argument).collect())
}

impl Argument {
    /// Defines its value as JSON and gives the rule's name.
    pub fn json(&self, writer: &mut Writer, tool: &Callable) -> String {
        writer.rule(&self.rule, &format!("%json {}", tool.document(&self.schema)));
        self.rule.clone()
    }

    /// Defines its value as text up to a mark, and gives what stands for both. Where values stand on lines of their own,
    /// the line ends around one are not part of it.
    pub fn text(&self, writer: &mut Writer, end: &[MarkPart], on_lines: bool) -> Result<String> {
        let terminal = format!("{}TEXT", self.rule.to_uppercase());
        writer.rule(&terminal, &self.expressions()?);
        let fits = match on_lines {
            true => format!(
                "( \"\\n\" {terminal} \"\\n\" | \"\\n\" ({terminal} & ~/(?s:.*)\\n/) | {terminal} & ~/\\n(?s:.*)/ )"
            ),
            false => terminal,
        };
        Ok(writer.until(&self.rule, end, &fits, self.may_be_empty()))
    }

    fn may_be_empty(&self) -> bool {
        ["minLength", "pattern", "const", "enum"].iter().all(|keyword| self.schema.get(keyword).is_none())
    }

    /// What the schema says about a text, as terminals that must all hold.
    fn expressions(&self) -> Result<String> {
        let refuse = |keyword: &str| {
            Error::Calls(format!("{keyword} of {:?} cannot be kept in this model's format", self.key))
        };
        let Value::Object(schema) = &self.schema else { return Err(refuse("the schema")) };
        let count = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        let most = count("maxLength").map_or(String::new(), |most| most.to_string());
        let mut all = vec![format!("/(?s:.{{{},{most}}})/", count("minLength").unwrap_or(0))];
        for (keyword, value) in schema {
            match keyword.as_str() {
                "type" | "minLength" | "maxLength" => {}
                "pattern" => {
                    let whole = value.as_str().and_then(whole).ok_or_else(|| refuse("the pattern"))?;
                    all.push(format!("/{}/", llguidance::regex_to_lark(&whole, "")));
                }
                "const" => all.push(one_of_texts(std::slice::from_ref(value))),
                "enum" => all.push(one_of_texts(value.as_array().map_or(&[], Vec::as_slice))),
                other => return Err(refuse(other)),
            }
        }
        Ok(all.join(" & "))
    }
}

fn one_of_texts(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().filter_map(Value::as_str).map(quoted).collect();
    one_of(&texts)
}

/// An expression that matches whole texts in which a prepared pattern matches somewhere; none where it has anchors in
/// some of its alternatives.
fn whole(pattern: &str) -> Option<String> {
    let (from_start, rest) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (to_end, inner) = match rest.strip_suffix('$') {
        Some(inner) => (true, inner),
        None => (false, rest),
    };
    let mut depth = 0usize;
    for byte in inner.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => return None,
            _ => {}
        }
    }
    let any = |is_anchored: bool| if is_anchored { "" } else { "(?s:.*)" };
    Some(format!("{}{inner}{}", any(from_start), any(to_end)))
}
