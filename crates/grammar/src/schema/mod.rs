//! JSON schemas as the compiler understands them: every keyword is one that it keeps exactly, every reference leads to
//! a definition beside it, and what cannot be kept is refused with its name and place.

mod applies;
mod formats;
mod keywords;
mod locate;
mod numbers;
mod objects;
mod pattern;
mod size;
mod source;

use serde_json::{Map, Value, json};
use std::collections::HashMap;

use crate::{Error, Result, limits};
use applies::Kinds;
pub use locate::locate;
use numbers::Multiples;
use source::{Draft, Place, Source};

/// White space between the parts of a document: a space, or a new line and its indentation, never more.
const SPACE: &str = r"[ ]|\n[ \t]{0,40}";
/// The escapes in strings. Without `\u` a string has one spelling only, so that a name cannot come in disguise.
const ESCAPES: &str = "nrbtf\\\"";

/// A schema for the compiler that means what the given one means.
pub fn prepare(given: &Value) -> Result<Value> {
    let (root, definitions) = prepare_part(given, "")?;
    Ok(document(root, definitions))
}

/// The same for a schema that becomes part of a larger one: it and its definitions, whose names begin with a prefix.
pub fn prepare_part(given: &Value, prefix: &str) -> Result<(Value, Map<String, Value>)> {
    let (root, definitions, _) = Preparation::run(given, prefix, false)?;
    Ok((root, definitions))
}

/// A whole schema for the compiler.
pub fn document(root: Value, definitions: Map<String, Value>) -> Value {
    let mut object = match root {
        Value::Object(object) => object,
        Value::Bool(true) => Map::new(),
        other => return other,
    };
    if !definitions.is_empty() {
        object.insert("$defs".to_string(), definitions.into());
    }
    let options = json!({"whitespace_pattern": SPACE, "json_allowed_escapes": ESCAPES});
    object.insert("x-guidance".to_string(), options);
    Value::Object(object)
}

/// All schemas in a schema as they would be compiled alone, with their places, innermost last.
fn parts(given: &Value) -> Result<Vec<(String, Value)>> {
    let (_, definitions, parts) = Preparation::run(given, "", true)?;
    Ok(parts.into_iter().map(|(pointer, part)| (pointer, document(part, definitions.clone()))).collect())
}

/// A schema, its definitions, and its parts with their places.
type Prepared = (Value, Map<String, Value>, Vec<(String, Value)>);

/// Walks through a schema and writes the prepared one.
struct Preparation<'a> {
    source: Source<'a>,
    /// What the names of definitions begin with.
    prefix: &'a str,
    /// The number of each schema that a reference leads to, by its address.
    numbers: HashMap<*const Value, usize>,
    /// Where references lead, in the order of their numbers.
    targets: Vec<Place<'a>>,
    multiples: Multiples,
    nodes: usize,
    /// References that are being written in place, so that none is inside itself.
    inlined: Vec<*const Value>,
    /// How many schemas were written in place of references.
    copies: usize,
    parts: Option<Vec<(String, Value)>>,
}

impl<'a> Preparation<'a> {
    fn run(given: &'a Value, prefix: &'a str, keep_parts: bool) -> Result<Prepared> {
        size::check(given)?;
        let source = Source::new(given)?;
        let root = source.root();
        let mut preparation = Preparation {
            source,
            prefix,
            numbers: HashMap::new(),
            targets: Vec::new(),
            multiples: Multiples::default(),
            nodes: 0,
            inlined: Vec::new(),
            copies: 0,
            parts: keep_parts.then(Vec::new),
        };
        let schema = preparation.schema(&root)?;
        let mut definitions = Map::new();
        while definitions.len() < preparation.targets.len() {
            let number = definitions.len();
            let target = preparation.targets[number].clone();
            definitions.insert(preparation.name(number), preparation.schema(&target)?);
        }
        Ok((schema, definitions, preparation.parts.unwrap_or_default()))
    }

    fn name(&self, number: usize) -> String {
        format!("{}d{number}", self.prefix)
    }

    fn schema(&mut self, place: &Place<'a>) -> Result<Value> {
        self.nodes += 1;
        limits::check("schemas in the JSON schema", self.nodes, limits::SCHEMA_NODES)?;
        let given = match place.value {
            Value::Bool(is_anything) => return Ok(json!(is_anything)),
            Value::Object(given) => given,
            _ => return Err(place.refuse("schema", "it is neither an object nor true or false")),
        };
        let at = self.parts.as_ref().map(|parts| parts.len());
        if let Some(parts) = &mut self.parts {
            parts.push((place.pointer.clone(), Value::Null));
        }
        let mut node = Node { place, given, kinds: Kinds::of(place, given)?, out: Map::new() };
        match given.get("$ref").filter(|_| self.source.draft <= Draft::Seven) {
            // Older drafts ignore what stands beside a reference.
            Some(reference) => self.reference(&mut node, reference)?,
            None => self.keywords(&mut node)?,
        }
        let schema = Value::Object(node.out);
        if let (Some(at), Some(parts)) = (at, &mut self.parts) {
            parts[at].1 = schema.clone();
        }
        Ok(schema)
    }

    fn reference(&mut self, node: &mut Node<'a, '_>, reference: &Value) -> Result<()> {
        let target = self.source.resolve(node.place, reference)?;
        let next = self.targets.len();
        let number = *self.numbers.entry(std::ptr::from_ref(target.value)).or_insert(next);
        if number == next {
            self.targets.push(target);
        }
        node.out.insert("$ref".to_string(), format!("#/$defs/{}", self.name(number)).into());
        Ok(())
    }

    /// The schemas of `allOf`, `anyOf` and `oneOf`.
    fn alternatives(&mut self, node: &Node<'a, '_>, keyword: &str) -> Result<Vec<Value>> {
        let places = node.list(keyword)?;
        if places.is_empty() {
            return Err(node.refuse(keyword, "it has no schemas"));
        }
        limits::check("schemas in one allOf, anyOf or oneOf", places.len(), limits::ALTERNATIVES)?;
        match keyword {
            "oneOf" => places.iter().map(|place| self.in_place(place)).collect(),
            _ => places.iter().map(|place| self.schema(place)).collect(),
        }
    }

    /// A schema, or what its reference leads to: only what is written out can be seen to exclude another.
    fn in_place(&mut self, place: &Place<'a>) -> Result<Value> {
        let only = match place.value {
            Value::Object(given) => {
                given.get("$ref").filter(|_| given.keys().all(|key| !asserts_beside(key)))
            }
            _ => None,
        };
        let Some(reference) = only else { return self.schema(place) };
        let target = self.source.resolve(place, reference)?;
        let address = std::ptr::from_ref(target.value);
        if self.inlined.contains(&address) {
            return self.schema(place);
        }
        self.inlined.push(address);
        let before = self.nodes;
        let schema = self.in_place(&target);
        self.inlined.pop();
        self.copies += self.nodes - before;
        limits::check("schemas that references in oneOf lead to", self.copies, limits::INLINED)?;
        schema
    }
}

/// Whether a keyword beside a reference says something.
fn asserts_beside(keyword: &str) -> bool {
    keyword != "$ref" && !keywords::is_annotation(keyword)
}

/// One schema that is being prepared.
struct Node<'a, 'p> {
    place: &'p Place<'a>,
    given: &'a Map<String, Value>,
    /// The kinds of values that it allows.
    kinds: Kinds,
    out: Map<String, Value>,
}

impl<'a> Node<'a, '_> {
    fn refuse(&self, keyword: &str, what: impl Into<String>) -> Error {
        self.place.refuse(keyword, what)
    }

    /// The place of a keyword's value.
    fn child(&self, keyword: &str) -> Option<Place<'a>> {
        Some(self.place.step(keyword, self.given.get(keyword)?))
    }

    /// The places of the schemas in a keyword's list.
    fn list(&self, keyword: &str) -> Result<Vec<Place<'a>>> {
        let Some(list) = self.child(keyword) else { return Ok(Vec::new()) };
        let Value::Array(values) = list.value else {
            return Err(self.refuse(keyword, "it is not a list of schemas"));
        };
        Ok(values.iter().enumerate().map(|(index, value)| list.step(&index.to_string(), value)).collect())
    }

    /// The names and places of the schemas in a keyword's object.
    fn named(&self, keyword: &str) -> Result<Vec<(&'a str, Place<'a>)>> {
        let Some(object) = self.child(keyword) else { return Ok(Vec::new()) };
        let Value::Object(fields) = object.value else {
            return Err(self.refuse(keyword, "it is not an object of schemas"));
        };
        Ok(fields.iter().map(|(name, value)| (name.as_str(), object.step(name, value))).collect())
    }

    fn has(&self, keyword: &str) -> bool {
        self.given.contains_key(keyword)
    }

    fn put(&mut self, keyword: &str, value: impl Into<Value>) {
        self.out.insert(keyword.to_string(), value.into());
    }
}

#[cfg(test)]
mod tests;
