//! The keywords of a schema, one by one: what is kept, what says nothing, what is refused.

use serde_json::{Value, json};

use super::applies::{STRING, kind_of};
use super::source::Draft;
use super::{Node, Preparation, formats, numbers, objects, pattern};
use crate::{Result, limits};

/// Keywords that describe and do not demand, of JSON schema itself, of OpenAPI and of editors.
const ANNOTATIONS: [&str; 45] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$schema",
    "$vocabulary",
    "allowComments",
    "allowTrailingCommas",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "defaultSnippets",
    "definitions",
    "deprecated",
    "deprecationMessage",
    "description",
    "discriminator",
    "doNotSuggest",
    "enumDescriptions",
    "enumDetails",
    "enumNames",
    "errorMessage",
    "example",
    "examples",
    "externalDocs",
    "fileMatch",
    "hidden",
    "id",
    "markdownDescription",
    "markdownEnumDescriptions",
    "meta:enum",
    "options",
    "patternErrorMessage",
    "propertyOrder",
    "readOnly",
    "scope",
    "suggestSortText",
    "title",
    "tsEnumNames",
    "tsType",
    "version",
    "writeOnly",
    "xml",
];

/// Whether a keyword says nothing about which values are valid.
pub fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.binary_search(&keyword).is_ok() || keyword.starts_with("x-")
}

impl<'a> Preparation<'a> {
    /// Prepares all keywords of a schema. Those that combine schemas come last: the compiler reads in order.
    pub(super) fn keywords(&mut self, node: &mut Node<'a, '_>) -> Result<()> {
        let given = node.given;
        for (keyword, value) in given {
            // An annotation since then.
            if keyword.starts_with("content") && self.source.draft <= Draft::Seven {
                return Err(node.refuse(keyword, refusal(keyword)));
            }
            if is_annotation(keyword) || kind_of(keyword).is_some_and(|kind| !node.kinds.has(kind)) {
                continue;
            }
            match keyword.as_str() {
                "type" => node.put("type", value.clone()),
                "minLength" | "maxLength" | "minItems" | "maxItems" => {
                    let count = numbers::count(node, keyword, value)?;
                    node.put(keyword, count);
                }
                "pattern" => {
                    let translated =
                        pattern::translated(value).map_err(|what| node.refuse("pattern", what))?;
                    node.put("pattern", translated);
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                    numbers::bound(node, keyword, value, self.source.draft)?;
                }
                "multipleOf" => {
                    self.multiples.add(node, value)?;
                    node.put("multipleOf", value.clone());
                }
                "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" => {}
                "minProperties" | "maxProperties" => objects::count(node, keyword, value)?,
                "properties" | "patternProperties" | "additionalProperties" | "unevaluatedProperties" => {}
                "required" => objects::required(node, value)?,
                "format" | "nullable" | "$ref" | "allOf" | "anyOf" | "oneOf" | "const" | "enum" => {}
                _ if says_nothing(node, keyword, value) => {}
                _ => return Err(node.refuse(keyword, refusal(keyword))),
            }
        }
        self.items(node)?;
        self.properties(node)?;
        self.format(node)?;
        self.values(node)?;
        for keyword in ["allOf", "anyOf", "oneOf"] {
            if node.has(keyword) {
                let mut schemas = self.alternatives(node, keyword)?;
                // A format may have put its own there.
                if let Some(Value::Array(more)) = node.out.remove(keyword) {
                    schemas.extend(more);
                }
                node.put(keyword, schemas);
            }
        }
        if let Some(reference) = given.get("$ref") {
            self.reference(node, reference)?;
        }
        nullable(node)
    }

    /// Items of arrays, whose keywords have other names in older drafts.
    fn items(&mut self, node: &mut Node<'a, '_>) -> Result<()> {
        if !node.kinds.has(super::applies::ARRAY) {
            return Ok(());
        }
        let may_be_old = self.source.draft <= Draft::Of2019 || !self.source.says_draft;
        let is_old = may_be_old && matches!(node.given.get("items"), Some(Value::Array(_)));
        let (first, rest) = if is_old { ("items", "additionalItems") } else { ("prefixItems", "items") };
        let unevaluated = node.has("unevaluatedItems") && !is_true(&node.given["unevaluatedItems"]);
        if unevaluated && (node.has(rest) || combines(node)) {
            return Err(node.refuse("unevaluatedItems", refusal("unevaluatedItems")));
        }
        if node.has(first) {
            let prefix: Result<Vec<Value>> =
                node.list(first)?.iter().map(|place| self.schema(place)).collect();
            node.put("prefixItems", prefix?);
        }
        let rest = if unevaluated { "unevaluatedItems" } else { rest };
        if let Some(place) = node.child(rest) {
            let items = self.schema(&place)?;
            node.put("items", items);
        }
        Ok(())
    }

    /// A format is a pattern.
    fn format(&mut self, node: &mut Node<'a, '_>) -> Result<()> {
        let Some(format) = node.given.get("format") else { return Ok(()) };
        let Some(name) = format.as_str() else { return Err(node.refuse("format", "it is not a text")) };
        match formats::pattern(name) {
            _ if formats::is_annotation(name) => {}
            Some(_) if !node.kinds.has(STRING) => {}
            Some(pattern) if node.out.contains_key("pattern") => {
                node.put("allOf", json!([{"pattern": pattern}]));
            }
            Some(pattern) => node.put("pattern", pattern),
            None => return Err(node.refuse("format", format!("the format {name:?} is not supported"))),
        }
        Ok(())
    }

    /// Values that are listed.
    fn values(&mut self, node: &mut Node<'a, '_>) -> Result<()> {
        if let Some(value) = node.given.get("const") {
            numbers::check_constant(node, "const", value)?;
            node.put("const", value.clone());
        }
        let Some(list) = node.given.get("enum") else { return Ok(()) };
        let Some(values) = list.as_array().filter(|values| !values.is_empty()) else {
            return Err(node.refuse("enum", "it is not a list of values"));
        };
        if values.len() > limits::ENUM_VALUES {
            let most = limits::ENUM_VALUES;
            return Err(
                node.refuse("enum", format!("it has {} values, at most {most} are allowed", values.len()))
            );
        }
        for value in values {
            numbers::check_constant(node, "enum", value)?;
        }
        node.put("enum", list.clone());
        Ok(())
    }
}

/// OpenAPI's way to allow null too.
fn nullable(node: &mut Node) -> Result<()> {
    match node.given.get("nullable") {
        None | Some(Value::Bool(false)) => Ok(()),
        Some(Value::Bool(true)) => {
            let inner = std::mem::take(&mut node.out);
            node.put("anyOf", json!([inner, {"type": "null"}]));
            Ok(())
        }
        Some(_) => Err(node.refuse("nullable", "it is neither true nor false")),
    }
}

/// Whether schemas beside this one's own keywords decide about the same values.
pub(super) fn combines(node: &Node) -> bool {
    ["$ref", "allOf", "anyOf", "oneOf", "if"].iter().any(|keyword| node.has(keyword))
}

/// Whether a schema holds for everything.
pub(super) fn is_true(schema: &Value) -> bool {
    match schema {
        Value::Bool(is_anything) => *is_anything,
        Value::Object(fields) => fields.keys().all(|keyword| is_annotation(keyword)),
        _ => false,
    }
}

/// Whether a keyword that is not supported demands nothing as it stands here.
fn says_nothing(node: &Node, keyword: &str, value: &Value) -> bool {
    match keyword {
        "if" => !node.has("then") && !node.has("else"),
        "then" | "else" => !node.has("if"),
        "not" => *value == Value::Bool(false),
        "uniqueItems" => *value == Value::Bool(false),
        "minContains" | "maxContains" => !node.has("contains"),
        "dependentRequired" | "dependentSchemas" | "dependencies" => *value == json!({}),
        "propertyNames" => is_true(value) || *value == json!({"type": "string"}),
        "$recursiveAnchor" => *value == Value::Bool(false),
        _ => false,
    }
}

fn refusal(keyword: &str) -> &'static str {
    match keyword {
        "not"
        | "if"
        | "then"
        | "else"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "contains"
        | "minContains"
        | "maxContains"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "propertyNames"
        | "uniqueItems"
        | "$dynamicRef"
        | "$recursiveRef"
        | "$recursiveAnchor" => "the keyword is not supported",
        _ => "the keyword is not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_sorted() {
        assert!(ANNOTATIONS.is_sorted());
    }
}
