//! What is prepared and what is refused.

use super::*;

/// What an error says.
fn refused(schema: Value) -> String {
    prepare(&schema).map(|prepared| panic!("{schema} became {prepared}")).unwrap_err().to_string()
}

/// The prepared schema without what is the same for all.
fn prepared(schema: Value) -> Value {
    let mut prepared = prepare(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    if let Value::Object(fields) = &mut prepared {
        fields.remove("x-guidance");
    }
    prepared
}

#[test]
fn unsupported_keywords_are_refused_by_name_and_place() {
    for keyword in [
        "not",
        "if",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "contains",
        "propertyNames",
        "$dynamicRef",
        "$recursiveRef",
        "unheardOf",
        "minimun",
    ] {
        let error = refused(json!({"properties": {"a/b": {keyword: {"const": 1}, "then": true}}}));
        let place = format!("#/properties/a~1b: {keyword}: ");
        assert!(error.contains(&place), "{error}");
    }
    let error = refused(json!({"$defs": {"x": {"uniqueItems": true}}, "items": {"$ref": "#/$defs/x"}}));
    assert!(error.contains("#/$defs/x: uniqueItems: "), "{error}");
    // What nothing refers to is not looked at.
    prepared(json!({"$defs": {"x": {"uniqueItems": true}}}));
}

#[test]
fn what_demands_nothing_is_left_out() {
    let schema = json!({
        "title": "t", "description": "d", "default": {"not": 1}, "examples": [1], "$comment": "c", "readOnly": true,
        "x-own": {"not": {}}, "x-guidance": {"lenient": true}, "uniqueItems": false, "then": {}, "not": false,
        "type": "string", "minItems": 3, "contains": {"not": {}},
    });
    assert_eq!(prepared(schema), json!({"type": "string"}));
}

#[test]
fn references_lead_to_definitions() {
    let schema = json!({
        "$defs": {"a~b/c d": {"items": {"$ref": "#"}}, "named": {"$anchor": "n", "const": 1}},
        "properties": {"x": {"$ref": "#/$defs/a~0b~1c%20d"}, "y": {"$ref": "#n"}},
    });
    let expected = json!({
        "properties": {"x": {"$ref": "#/$defs/d0"}, "y": {"$ref": "#/$defs/d1"}},
        "$defs": {
            "d0": {"items": {"$ref": "#/$defs/d2"}},
            "d1": {"const": 1},
            "d2": {"properties": {"x": {"$ref": "#/$defs/d0"}, "y": {"$ref": "#/$defs/d1"}}},
        },
    });
    assert_eq!(prepared(schema), expected);
    // A schema with an address of its own is the root of its references.
    let schema = json!({
        "$id": "http://a/", "const": 0,
        "$defs": {"inner": {"$id": "http://b/", "$defs": {"t": {"const": 2}}, "items": {"$ref": "#/$defs/t"}}},
        "prefixItems": [{"$ref": "http://b/#/$defs/t"}, {"$ref": "#/$defs/inner"}],
    });
    let defs = json!({"d0": {"const": 2}, "d1": {"items": {"$ref": "#/$defs/d0"}}});
    assert_eq!(prepared(schema)["$defs"], defs);
    for (reference, what) in [
        (json!("http://example.com/x"), "outside"),
        (json!("other.json#/a"), "outside"),
        (json!("#/nothing"), "nothing is at"),
        (json!("#name"), "nothing is at"),
        (json!("#/%zz"), "valid"),
        (json!(1), "not a text"),
    ] {
        let error = refused(json!({"items": {"$ref": reference}}));
        assert!(error.contains("#/items: $ref: ") && error.contains(what), "{error}");
    }
}

#[test]
fn drafts_differ() {
    let four = "http://json-schema.org/draft-04/schema#";
    let schema = json!({"$schema": four, "minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": false});
    assert_eq!(prepared(schema), json!({"minimum": 1, "exclusiveMinimum": 1, "maximum": 2}));
    let seven = "http://json-schema.org/draft-07/schema";
    let schema = json!({"$schema": seven, "definitions": {"a": {"const": 1}}, "$ref": "#/definitions/a", "maximum": 0});
    assert_eq!(prepared(schema), json!({"$ref": "#/$defs/d0", "$defs": {"d0": {"const": 1}}}));
    let items = json!({"items": [{"const": 1}], "additionalItems": false});
    assert_eq!(prepared(items), json!({"prefixItems": [{"const": 1}], "items": false}));
    let error = refused(json!({"$schema": "http://json-schema.org/draft-03/schema#"}));
    assert!(error.contains("#: $schema: "), "{error}");
}

#[test]
fn alternatives_that_exclude_one_another_are_written_out() {
    let schema = json!({"$defs": {"a": {"const": "a"}, "b": {"$ref": "#/$defs/c"}, "c": {"oneOf": [{"$ref": "#/$defs/b"}]}},
        "oneOf": [{"$ref": "#/$defs/a", "title": "A"}, {"$ref": "#/$defs/b"}]});
    let prepared = prepared(schema);
    assert_eq!(prepared["oneOf"][0], json!({"const": "a"}));
    assert!(prepared["oneOf"][1]["oneOf"][0].get("$ref").is_some(), "{prepared}");
}

#[test]
fn numbers_that_would_be_rounded_are_refused() {
    for (keyword, value) in [
        ("const", json!(9_007_199_254_740_993_i64)),
        ("enum", json!([[{"a": u64::MAX}]])),
        ("minimum", json!(-9_007_199_254_740_993_i64)),
        ("maximum", json!(1e300)),
        ("multipleOf", json!(0)),
        ("multipleOf", json!(1e-7)),
        ("multipleOf", json!(70_000)),
        ("minLength", json!(-1)),
        ("minItems", json!(1.5)),
        ("minItems", json!(100_000)),
        ("maximum", json!("1")),
        ("const", json!("\u{1}")),
        ("minProperties", json!(2)),
    ] {
        let error = refused(json!({"anyOf": [{keyword: value}]}));
        assert!(error.contains(&format!("#/anyOf/0: {keyword}: ")), "{error}");
    }
    // Alone they fit, together they do not.
    let error = refused(json!({"prefixItems": [{"multipleOf": 65_521}, {"multipleOf": 65_519}]}));
    assert!(error.contains("#/prefixItems/1: multipleOf: "), "{error}");
    assert_eq!(
        prepared(json!({"maxLength": 3.0, "minProperties": 1.0})),
        json!({"maxLength": 3, "minProperties": 1})
    );
}

#[test]
fn large_schemas_are_refused_before_anything_follows_them() {
    // Built and taken apart by hand: copying or dropping it would be the recursion that is to be avoided.
    let mut deep = json!(true);
    for _ in 0..20_000 {
        deep = Value::Object(Map::from_iter([("items".to_string(), deep)]));
    }
    let error = prepare(&deep).unwrap_err().to_string();
    assert!(error.contains("levels of nesting"), "{error}");
    while let Value::Object(mut fields) = deep {
        deep = fields.remove("items").unwrap_or_default();
    }
    let error = refused(json!({"properties": {"a": {"enum": (0..20_000).collect::<Vec<_>>()}}}));
    assert!(error.contains("#/properties/a: enum: it has 20000 values"), "{error}");
    assert!(refused(json!({"description": "x".repeat(1 << 20)})).contains("bytes"));
    let many: Map<String, Value> = (0..1000).map(|n| (format!("^{n}$"), json!(true))).collect();
    assert!(refused(json!({"patternProperties": many})).contains("#: patternProperties: "));
    assert!(refused(json!({"anyOf": vec![json!({}); 1000]})).contains("anyOf"));
}
