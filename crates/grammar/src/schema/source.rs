//! The schema as it was given: which draft it is written in, where its parts are, and where references lead.

use serde_json::Value;

use crate::{Error, Result};

/// The versions of JSON schema, as far as they differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
}

/// A value in the schema.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    pub value: &'a Value,
    /// Where it is: a JSON pointer.
    pub pointer: String,
    /// The schema with an `$id` of its own that it is part of, which references with `#` alone begin from.
    resource: &'a Value,
    resource_pointer: String,
}

impl<'a> Place<'a> {
    pub fn refuse(&self, keyword: &str, what: impl Into<String>) -> Error {
        Error::Schema { pointer: self.pointer.clone(), keyword: keyword.to_string(), what: what.into() }
    }

    /// The place of something inside.
    pub fn step(&self, name: &str, value: &'a Value) -> Place<'a> {
        let pointer = format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"));
        let (resource, resource_pointer) = match id(value) {
            Some(_) => (value, pointer.clone()),
            None => (self.resource, self.resource_pointer.clone()),
        };
        Place { value, pointer, resource, resource_pointer }
    }

    /// The place that a JSON pointer leads to from here.
    fn follow(&self, pointer: &str) -> Option<Place<'a>> {
        let mut place = self.clone();
        for token in pointer.split('/').skip(1) {
            let name = token.replace("~1", "/").replace("~0", "~");
            let value = match place.value {
                Value::Object(fields) => fields.get(&name)?,
                Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
                _ => return None,
            };
            place = place.step(&name, value);
        }
        Some(place)
    }

    /// The places inside.
    fn children(&self) -> Vec<Place<'a>> {
        match self.value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(name, _)| !NO_SCHEMAS.contains(&name.as_str()));
                fields.map(|(name, value)| self.step(name, value)).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, value)| self.step(&index.to_string(), value)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Keywords whose values have no schemas in them, whatever they look like.
const NO_SCHEMAS: [&str; 4] = ["enum", "const", "default", "examples"];

/// The address that a schema gives itself; one that is only a name inside another is none.
fn id(value: &Value) -> Option<&str> {
    let id = value.get("$id").or_else(|| value.get("id"))?.as_str()?;
    Some(id.trim_end_matches('#')).filter(|id| !id.is_empty() && !id.starts_with('#'))
}

/// The schema of a request.
pub struct Source<'a> {
    root: Place<'a>,
    pub draft: Draft,
    /// Whether the schema says which draft it is written in.
    pub says_draft: bool,
}

impl<'a> Source<'a> {
    pub fn new(root: &'a Value) -> Result<Source<'a>> {
        let root =
            Place { value: root, pointer: String::new(), resource: root, resource_pointer: String::new() };
        let named = root.value.get("$schema");
        let draft = match named.map(|named| named.as_str().unwrap_or_default().trim_end_matches('#')) {
            None => Draft::Of2020,
            Some(name) => draft(name).ok_or_else(|| root.refuse("$schema", "it is not a known draft"))?,
        };
        Ok(Source { draft, says_draft: named.is_some(), root })
    }

    pub fn root(&self) -> Place<'a> {
        self.root.clone()
    }

    /// Where a reference leads.
    pub fn resolve(&self, from: &Place<'a>, reference: &Value) -> Result<Place<'a>> {
        let refuse = |what: &str| Err(from.refuse("$ref", what));
        let Some(text) = reference.as_str() else { return refuse("it is not a text") };
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let Some(fragment) = percent_decoded(fragment) else { return refuse("it is not a valid reference") };
        let resource = match address {
            "" => Place {
                value: from.resource,
                pointer: from.resource_pointer.clone(),
                resource: from.resource,
                resource_pointer: from.resource_pointer.clone(),
            },
            _ => match self.find(&self.root, |place| id(place.value) == Some(address)) {
                Some(resource) => resource,
                None => {
                    return refuse(&format!(
                        "{text:?} is outside of the schema; only its own parts can be referred to"
                    ));
                }
            },
        };
        let target = match fragment.as_str() {
            "" => Some(resource),
            pointer if pointer.starts_with('/') => resource.follow(pointer),
            name => self.find(&resource, |place| {
                std::ptr::eq(place.resource, resource.value) && is_named(place.value, name)
            }),
        };
        target.map_or_else(|| refuse(&format!("nothing is at {text:?}")), Ok)
    }

    /// The first place, from here inwards, that a condition holds for.
    fn find(&self, from: &Place<'a>, holds: impl Fn(&Place<'a>) -> bool) -> Option<Place<'a>> {
        let mut open = vec![from.clone()];
        while let Some(place) = open.pop() {
            if holds(&place) {
                return Some(place);
            }
            open.extend(place.children());
        }
        None
    }
}

/// Whether a schema has this name inside its resource.
fn is_named(value: &Value, name: &str) -> bool {
    let says = |keyword: &str| value.get(keyword).and_then(Value::as_str);
    says("$anchor") == Some(name)
        || says("$dynamicAnchor") == Some(name)
        || [says("$id"), says("id")].iter().flatten().any(|id| id.strip_prefix('#') == Some(name))
}

fn draft(name: &str) -> Option<Draft> {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
    Some(match name {
        "json-schema.org/draft-04/schema" => Draft::Four,
        "json-schema.org/draft-06/schema" => Draft::Six,
        "json-schema.org/draft-07/schema" => Draft::Seven,
        "json-schema.org/draft/2019-09/schema" => Draft::Of2019,
        "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Draft::Of2020,
        _ => return None,
    })
}

/// `%41` is `A`.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
