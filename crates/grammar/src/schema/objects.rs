//! Objects: their properties and how many there may be.

use serde_json::{Map, Value};

use super::applies::OBJECT;
use super::keywords::{combines, is_true};
use super::source::Place;
use super::{Node, Preparation, numbers, pattern};
use crate::{Result, limits};

impl<'a> Preparation<'a> {
    /// Properties by name, by pattern and all others.
    pub(super) fn properties(&mut self, node: &mut Node<'a, '_>) -> Result<()> {
        if !node.kinds.has(OBJECT) {
            return Ok(());
        }
        if node.has("properties") {
            let named = node.named("properties")?;
            if named.len() > limits::PROPERTIES {
                let what = format!("it has {}, at most {} are allowed", named.len(), limits::PROPERTIES);
                return Err(node.refuse("properties", what));
            }
            let mut properties = Map::new();
            for (name, place) in named {
                properties.insert(name.to_string(), self.schema(&place)?);
            }
            node.put("properties", properties);
        }
        if node.has("patternProperties") {
            let patterns = self.patterns(node, node.named("patternProperties")?)?;
            node.put("patternProperties", patterns);
        }
        let unevaluated = node.has("unevaluatedProperties") && !is_true(&node.given["unevaluatedProperties"]);
        if unevaluated && (node.has("additionalProperties") || combines(node)) {
            return Err(
                node.refuse("unevaluatedProperties", "the keyword is not supported beside others like it")
            );
        }
        // Alone it means the same.
        let rest = if unevaluated { "unevaluatedProperties" } else { "additionalProperties" };
        if let Some(place) = node.child(rest) {
            let schema = self.schema(&place)?;
            node.put("additionalProperties", schema);
        }
        Ok(())
    }

    fn patterns(&mut self, node: &Node<'a, '_>, named: Vec<(&str, Place<'a>)>) -> Result<Map<String, Value>> {
        if named.len() > limits::PATTERNS {
            let what = format!("it has {} patterns, at most {} are allowed", named.len(), limits::PATTERNS);
            return Err(node.refuse("patternProperties", what));
        }
        let mut patterns = Map::new();
        for (name, place) in named {
            let pattern = pattern::translated(&Value::from(name));
            let pattern = pattern.map_err(|what| node.refuse("patternProperties", what))?;
            patterns.insert(pattern, self.schema(&place)?);
        }
        Ok(patterns)
    }
}

/// Names of properties that must be there.
pub fn required(node: &mut Node, value: &Value) -> Result<()> {
    let names = value.as_array().filter(|names| names.iter().all(Value::is_string));
    let Some(names) = names else { return Err(node.refuse("required", "it is not a list of names")) };
    node.put("required", names.clone());
    Ok(())
}

/// How many properties there are. Names can come twice in a text and then are one property, so that only as many can
/// be demanded as are named, and one more.
pub fn count(node: &mut Node, keyword: &str, value: &Value) -> Result<()> {
    let count = numbers::count(node, keyword, value)?;
    if keyword == "minProperties" {
        let named = node.given.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut named: Vec<&str> = named.filter_map(Value::as_str).collect();
        named.sort_unstable();
        named.dedup();
        let missing = count.saturating_sub(named.len() as u64);
        if missing == 0 {
            return Ok(());
        }
        if missing > 1 {
            let what = "only one more property than those that are required can be demanded";
            return Err(node.refuse(keyword, what));
        }
    }
    node.put(keyword, count);
    Ok(())
}
