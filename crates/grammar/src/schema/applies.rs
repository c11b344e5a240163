//! Which kinds of values a schema allows, and which keywords therefore say nothing in it.

use serde_json::{Map, Value};

use super::source::Place;
use crate::Result;

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

pub const STRING: Kinds = Kinds(1);
pub const NUMBER: Kinds = Kinds(2);
pub const ARRAY: Kinds = Kinds(4);
pub const OBJECT: Kinds = Kinds(8);
const OTHER: Kinds = Kinds(16);
const ALL: Kinds = Kinds(31);

impl Kinds {
    /// What `type` allows.
    pub fn of(place: &Place, given: &Map<String, Value>) -> Result<Kinds> {
        let names = match given.get("type") {
            None => return Ok(ALL),
            Some(Value::Array(names)) if !names.is_empty() => names.as_slice(),
            Some(name) => std::slice::from_ref(name),
        };
        let mut kinds = 0;
        for name in names {
            kinds |= match name.as_str() {
                Some("string") => STRING.0,
                Some("number" | "integer") => NUMBER.0,
                Some("array") => ARRAY.0,
                Some("object") => OBJECT.0,
                Some("boolean" | "null") => OTHER.0,
                _ => return Err(place.refuse("type", format!("{name} is not a type"))),
            };
        }
        Ok(Kinds(kinds))
    }

    pub fn has(self, kind: Kinds) -> bool {
        self.0 & kind.0 != 0
    }
}

/// The kind of values that a keyword speaks of, if it is one kind only.
pub fn kind_of(keyword: &str) -> Option<Kinds> {
    Some(match keyword {
        "minLength" | "maxLength" | "pattern" => STRING,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => NUMBER,
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "minItems" | "maxItems"
        | "uniqueItems" | "contains" | "minContains" | "maxContains" => ARRAY,
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "required"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies" => OBJECT,
        _ => return None,
    })
}
