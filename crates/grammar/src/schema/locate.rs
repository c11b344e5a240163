//! Where in a schema the compiler's refusal comes from, found by compiling its parts alone.

use std::time::{Duration, Instant};

use llguidance::api::{GrammarInit, TopLevelGrammar};
use serde_json::Value;

use super::parts;
use crate::vocabulary::first_line;
use crate::{Error, limits};

/// How long parts are tried.
const LONGEST: Duration = Duration::from_millis(200);

/// The error that says where the compiler's complaint about a schema comes from: the innermost part that it complains
/// about with the same words.
pub fn locate(given: &Value, what: &str) -> Error {
    let parts = parts(given).unwrap_or_default();
    let start = Instant::now();
    let mut in_time = parts.into_iter().rev().take_while(|_| start.elapsed() < LONGEST);
    let found = in_time.find_map(|(pointer, part)| {
        let init = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(part.clone()));
        let error = init.to_internal(None, limits::of_parser()).err()?;
        let own = first_line(&format!("{error:#}"));
        what.contains(innermost(&own)).then_some((pointer, part))
    });
    let (pointer, part) = found.unwrap_or_else(|| (String::new(), given.clone()));
    let keyword = KEYWORDS.iter().find(|(word, keyword)| what.contains(word) && part.get(keyword).is_some());
    let keyword = keyword.map_or("schema", |(_, keyword)| keyword);
    let what = match keyword {
        "oneOf" => {
            "its schemas are not seen to exclude one another; use anyOf, or a property with different constants"
        }
        _ => what,
    };
    Error::Schema { pointer, keyword: keyword.to_string(), what: what.to_string() }
}

/// What a chain of complaints begins with, at its end.
fn innermost(message: &str) -> &str {
    message.rsplit("Unsatisfiable schema: ").next().unwrap_or(message)
}

/// Words in the compiler's complaints, and the keywords that they are about.
const KEYWORDS: [(&str, &str); 12] = [
    ("oneOf", "oneOf"),
    ("patternProperty", "patternProperties"),
    ("min/maxProperties", "minProperties"),
    ("min/maxProperties", "maxProperties"),
    ("minProperties", "minProperties"),
    ("minItems", "minItems"),
    ("minLength", "minLength"),
    ("multipleOf", "multipleOf"),
    ("inimum", "minimum"),
    ("aximum", "maximum"),
    ("egex", "pattern"),
    ("circular references", "$ref"),
];
