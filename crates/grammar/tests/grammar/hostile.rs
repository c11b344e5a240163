//! Grammars that want too much.

use super::walk::{Model, Random};
use gleed_engine::TokenMask;
use gleed_grammar::Grammar;
use serde_json::{Map, Value, json};

/// Compiles a grammar and takes some steps with it: it may be refused at any point, but all of it ends.
fn survive(name: &str, grammar: &Grammar) {
    let model = Model::stories();
    let start = std::time::Instant::now();
    let outcome = match model.vocabulary.constraint(grammar) {
        Err(error) => {
            assert!(error.to_string().len() < 2_000, "{name}: {error}");
            format!("refused: {error}")
        }
        Ok(mut constraint) => {
            let compiled = start.elapsed();
            let mut random = Random(5);
            let mut mask = TokenMask::none(model.tokenizer.vocab_size());
            let mut walk = || -> Result<(), gleed_engine::Error> {
                for _ in 0..20 {
                    mask.clear();
                    constraint.allow(&mut mask)?;
                    let all = 0..mask.vocabulary() as u32;
                    let allowed: Vec<u32> = all.filter(|&token| mask.allows(token)).collect();
                    let token = allowed[random.below(allowed.len())];
                    constraint.accept(token)?;
                    if model.tokenizer.is_end_of_generation(token) {
                        break;
                    }
                }
                Ok(())
            };
            format!("compiled in {compiled:?}, then {:?}", walk())
        }
    };
    println!("{name}: {:?}: {}", start.elapsed(), outcome.chars().take(150).collect::<String>());
}

#[test]
fn schemas_that_explode() {
    let schema = |name: &str, schema: Value| survive(name, &Grammar::JsonSchema(schema));
    let words: Vec<String> = (0..5_000).map(|n| format!("value number {n}")).collect();
    schema("5,000 values", json!({"enum": words}));
    schema("5,000 numbers", json!({"enum": (0..5_000).map(|n| n * 7).collect::<Vec<_>>()}));
    schema("maxItems", json!({"items": {"type": "string"}, "type": "array", "maxItems": 2_000_000_000}));
    schema("minItems", json!({"items": {"type": "string"}, "type": "array", "minItems": 20_000}));
    schema("minLength", json!({"type": "string", "minLength": 20_000, "maxLength": 2_000_000_000}));
    schema(
        "length of a pattern",
        json!({"type": "string", "minLength": 9_000, "pattern": "^[a-z]*b[a-z]*$"}),
    );
    // Each level refers twice to the next.
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    definitions.insert("d40".to_string(), json!({"type": "string"}));
    schema("references that double", json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next], "title": "x"}));
        definitions.insert(format!("e{n}"), json!({"oneOf": [next, next]}));
    }
    definitions.insert("d40".to_string(), json!({"type": "string"}));
    schema("allOf that doubles", json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"oneOf": [next, {"type": "array", "items": next}]}));
    }
    definitions.insert("d40".to_string(), json!({"type": "string"}));
    schema("oneOf that doubles", json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
    schema(
        "a circle",
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    );
    schema("a circle of allOf", json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}));
    schema("without end", json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}));
    let options: Vec<Value> =
        (0..200).map(|n| json!({"type": "object", "properties": {format!("p{n}"): {"const": n}}})).collect();
    schema("products", json!({"allOf": [{"anyOf": options}, {"anyOf": options}, {"anyOf": options}]}));
    schema("many of one", json!({"oneOf": options}));
    let properties: Map<String, Value> =
        (0..500).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    schema("500 properties", json!({"type": "object", "properties": properties}));
    schema(
        "500 properties, closed",
        json!({"type": "object", "properties": properties, "additionalProperties": false}),
    );
    let patterns: Map<String, Value> =
        (0..24).map(|n| (format!("^({n}|x.*y.*){{3,9}}$"), json!({"const": n}))).collect();
    schema("patterns", json!({"type": "object", "patternProperties": patterns}));
    let mut deep = json!({"type": "string"});
    for _ in 0..45 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
    }
    schema("45 levels", deep);
    let mut deep = json!({"type": "string"});
    for _ in 0..45 {
        deep = json!({"anyOf": [deep, {"type": "null"}]});
    }
    schema("45 alternatives in alternatives", deep);
}

#[test]
fn expressions_that_explode() {
    let regex =
        |text: &str| survive(&text.chars().take(30).collect::<String>(), &Grammar::Regex(text.to_string()));
    regex("(((((a{100}){100}){100}){100}){100})");
    regex("(a?){5000}a{5000}");
    regex(".*a.{1000}");
    regex("(.*a.{30}|.*b.{31}|.*c.{32})*");
    regex("(x+x+)+y");
    regex(r"(\w+\s?)*\p{Greek}{999}");
    regex(&"(".repeat(10_000));
    regex(&format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000)));
    regex(&"a?".repeat(1_500));
    regex(&"a?".repeat(4_000));
    regex(&"[a-z]|".repeat(2_000));
    regex(&"x".repeat(1 << 20));
    let schema =
        |pattern: &str| survive(pattern, &Grammar::JsonSchema(json!({"type": "string", "pattern": pattern})));
    schema("a{9999}b{9999}c{9999}");
    schema("((a{99}){99}){99}");
    schema("^(.*a.{300}|.*b.{301})$");
}

#[test]
fn grammars_that_explode() {
    let lark = |name: &str, text: String| survive(name, &Grammar::Lark(text));
    let chain: String = (0..6_000).map(|n| format!("r{n}: r{}\n", n + 1)).collect();
    lark("a chain of rules", format!("start: r0\n{chain}r6000: \"x\"\n"));
    let chain: String = (0..399).map(|n| format!("T{n}: T{} \"a\"?\n", n + 1)).collect();
    lark("a chain of terminals", format!("start: T0\n{chain}T399: \"x\"\n"));
    lark("brackets", format!("start: {}\"x\"{}\n", "(".repeat(20_000), ")".repeat(20_000)));
    lark("square brackets", format!("start: {}\"x\"{}\n", "[".repeat(20_000), "]".repeat(20_000)));
    lark(
        "brackets in JSON",
        format!("start: %json {}{}\n", "{\"items\":".repeat(10_000), "}".repeat(10_000)),
    );
    lark("ambiguity", "start: e\ne: e e | \"a\"\n".to_string());
    lark("nothing for ever", "start: e\ne: e e | \"\"\n".to_string());
    lark("repetition", "start: (\"a\"{1000000}){1000000}\n".to_string());
    lark("a loop of rules", "start: a\na: b\nb: a\n".to_string());
    lark("optional parts", format!("start: T\nT: {}\n", "\"a\"? ".repeat(1_499)));
    lark("size", "start: \"x\"\n".repeat(100_000));
    lark("not text", "\0\u{1}start:\u{2}".to_string());
}
