//! JSON, with and without a schema.

use super::walk::{Model, Random};
use gleed_grammar::Grammar;
use serde_json::{Value, json};

/// Walks until `count` answers have ended, and gives them as JSON.
fn answers(schema: &Value, count: usize) -> Vec<Value> {
    let model = Model::stories();
    let mut random = Random(1);
    let grammar = Grammar::JsonSchema(schema.clone());
    let walks = (0..count).map(|_| {
        let tokens = model.walk(model.constraint(&grammar).as_mut(), &mut random, 60, &[]);
        let text = model.text(&tokens.unwrap_or_else(|| panic!("no end: {schema}")));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    });
    walks.collect()
}

#[test]
fn any_object() {
    let model = Model::stories();
    let mut random = Random(3);
    for _ in 0..40 {
        let tokens = model.walk(model.constraint(&Grammar::Json).as_mut(), &mut random, 60, &[]).unwrap();
        let text = model.text(&tokens);
        // Numbers of any size are JSON, though not all readers take them.
        let value = serde_json::from_str::<serde_json::Value>(&text);
        assert!(value.as_ref().is_ok_and(Value::is_object) || text.contains(['e', 'E']), "{text:?}");
    }
    for text in ["{}", "{\"a\": [1, 2.5e3, {\"b\": null}]}", "{\n  \"a\": true\n}"] {
        assert!(model.accepts(&Grammar::Json, text), "{text}");
    }
    for text in ["", "[]", "{", "1", "{\"a\"}", "{\"a\":1,}"] {
        assert!(!model.accepts(&Grammar::Json, text), "{text}");
    }
}

#[test]
fn white_space_has_an_end() {
    let model = Model::stories();
    for (text, expected) in [
        ("{\n\t\t\"a\": 1\n}", true),
        ("{  \"a\": 1}", false),
        ("{\n\n\"a\": 1}", false),
        ("{ \n\"a\": 1}", false),
        (" {}", false),
    ] {
        assert_eq!(model.accepts(&Grammar::Json, text), expected, "{text:?}");
    }
    let deep = format!("{{\n{}\"a\": 1}}", " ".repeat(40));
    assert!(model.accepts(&Grammar::Json, &deep));
    assert!(!model.accepts(&Grammar::Json, &deep.replacen('\n', "\n ", 1)));
}

#[test]
fn a_schema_holds() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
            "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 120},
            "kind": {"enum": ["a", "b\"c", null, 7]},
            "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        },
        "required": ["name", "kind"],
        "additionalProperties": false,
    });
    let mut seen = [false; 2];
    for value in answers(&schema, 60) {
        let object = value.as_object().unwrap();
        assert!(object.keys().all(|key| ["name", "age", "kind", "tags"].contains(&key.as_str())), "{value}");
        let name = value["name"].as_str().unwrap();
        assert!(
            (2..=5).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{value}"
        );
        assert!([json!("a"), json!("b\"c"), json!(null), json!(7)].contains(&value["kind"]), "{value}");
        if let Some(age) = value.get("age") {
            seen[0] = true;
            assert!((0..120).contains(&age.as_i64().unwrap()), "{value}");
        }
        if let Some(tags) = value.get("tags") {
            seen[1] = true;
            let tags = tags.as_array().unwrap();
            assert!((1..=3).contains(&tags.len()) && tags.iter().all(Value::is_boolean), "{value}");
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn a_recursive_schema_holds() {
    let schema = json!({
        "$defs": {"tree": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            "required": ["value"],
            "additionalProperties": false,
        }},
        "$ref": "#/$defs/tree",
    });
    fn is_tree(value: &Value) -> bool {
        let children = value.get("children").map_or(Some(&[][..]), |list| list.as_array().map(Vec::as_slice));
        value["value"].is_number() && children.is_some_and(|children| children.iter().all(is_tree))
    }
    for value in answers(&schema, 30) {
        assert!(is_tree(&value), "{value}");
    }
}

#[test]
fn a_name_cannot_come_in_disguise() {
    let model = Model::stories();
    let grammar = Grammar::JsonSchema(json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    assert!(model.accepts(&grammar, "{\"a\":1,\"b\":\"x\"}"));
    assert!(!model.accepts(&grammar, "{\"a\":\"x\"}"));
    assert!(!model.accepts(&grammar, "{\"\\u0061\":\"x\"}"));
    assert!(!model.accepts(&grammar, "{\"a\":1,\"a\":\"x\"}"));
}

#[test]
fn what_the_compiler_refuses_has_a_place_too() {
    let model = Model::stories();
    for (schema, place) in [
        (json!({"properties": {"a": {"oneOf": [{"minimum": 1}, {"maximum": 5}]}}}), "#/properties/a: oneOf"),
        (
            json!({"items": {"patternProperties": {"a": {"const": 1}, "b": {"const": 2}}}}),
            "#/items: patternProperties",
        ),
        (
            json!({"items": {"properties": {"a": {}, "b": {}}, "maxProperties": 1, "type": "object"}}),
            "#/items: maxProperties",
        ),
        (
            json!({"properties": {"a": {"type": "string", "const": 1}}, "required": ["a"], "type": "object"}),
            "#/properties/a",
        ),
        (json!(false), "#: schema"),
    ] {
        let Err(error) = model.vocabulary.constraint(&Grammar::JsonSchema(schema.clone())) else {
            panic!("{schema} was compiled")
        };
        assert!(error.to_string().contains(place), "{error}");
    }
}

#[test]
fn a_large_vocabulary_of_another_kind() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root.join(".cache/test-data"), Into::into);
    let model = Model::open(&data.join("vocabs/ggml-vocab-qwen2.gguf"));
    let schema = json!({
        "type": "object",
        "properties": {"stadt": {"enum": ["Köln", "北京", "🐲"]}, "n": {"type": "integer", "minimum": -5, "maximum": 500}},
        "required": ["stadt", "n"],
        "additionalProperties": false,
    });
    let grammar = Grammar::JsonSchema(schema);
    let mut random = Random(9);
    for _ in 0..5 {
        let tokens = model.walk(model.constraint(&grammar).as_mut(), &mut random, 60, &[]).unwrap();
        let value: Value = serde_json::from_str(&model.text(&tokens)).unwrap();
        assert!(["Köln", "北京", "🐲"].contains(&value["stadt"].as_str().unwrap()), "{value}");
        assert!((-5..=500).contains(&value["n"].as_i64().unwrap()), "{value}");
    }
    assert!(model.accepts(&grammar, "{\"stadt\": \"北京\", \"n\": 42}"));
}
