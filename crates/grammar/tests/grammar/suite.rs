//! The official test suite of JSON schema, and schemas that people use (`tests/tools/json_schemas.py` fetches both):
//! each is refused with its reason, or holds. What random walks wrote is kept for `validate.py`, an independent judge.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use super::walk::{Model, Random};
use gleed_grammar::Grammar;
use serde_json::{Value, json};

struct Entry {
    name: String,
    schema: Value,
    /// Instances, and whether they are valid.
    tests: Vec<(Value, bool)>,
}

fn entries(file: &str) -> Vec<Entry> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data =
        std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root.join(".cache/test-data"), PathBuf::from);
    let path = data.join("schemas").join(file);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; ./test fetches it", path.display()));
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let tests = line["tests"].as_array().into_iter().flatten();
        Entry {
            name: line["name"].as_str().unwrap().to_string(),
            schema: line["schema"].clone(),
            tests: tests.map(|test| (test["data"].clone(), test["valid"] == true)).collect(),
        }
    });
    lines.collect()
}

/// What a refusal is about: its keyword, or the kind of limit.
fn reason(error: &gleed_grammar::Error) -> String {
    match error {
        gleed_grammar::Error::Schema { keyword, .. } => keyword.clone(),
        gleed_grammar::Error::TooLarge { what, .. } => what.to_string(),
        other => panic!("{other}"),
    }
}

/// Walks through every schema that is not refused and keeps what was written.
fn walk_all(file: &str, walks: usize) -> (usize, BTreeMap<String, usize>) {
    let model = Model::stories();
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("answers-{file}"));
    let mut out = std::io::BufWriter::new(std::fs::File::create(out).unwrap());
    let mut random = Random(23);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut kept, mut unfinished) = (0, 0);
    for entry in entries(file) {
        let grammar = Grammar::JsonSchema(entry.schema.clone());
        if let Err(error) = model.vocabulary.constraint(&grammar) {
            *refused.entry(reason(&error)).or_default() += 1;
            continue;
        }
        kept += 1;
        let mut answers = Vec::new();
        for _ in 0..walks {
            let mut constraint = model.constraint(&grammar);
            match model.walk(constraint.as_mut(), &mut random, 25, &[]) {
                Some(tokens) => answers.push(model.text(&tokens)),
                None => unfinished += 1,
            }
        }
        let line = json!({"name": entry.name, "schema": entry.schema, "answers": answers});
        writeln!(out, "{line}").unwrap();
    }
    println!("{file}: {kept} kept, {unfinished} answers without an end, refused: {refused:?}");
    (kept, refused)
}

#[test]
fn answers_by_the_suite() {
    let (kept, refused) = walk_all("suite.jsonl", 3);
    assert!(kept > 700, "{kept} kept, refused: {refused:?}");
}

#[test]
fn answers_by_schemas_that_people_use() {
    let (kept, refused) = walk_all("real.jsonl", 2);
    assert!(kept > 200, "{kept} kept, refused: {refused:?}");
}

#[test]
fn instances_of_the_suite() {
    let model = super::tools::model(&[]);
    let (mut accepted, mut rejected, mut orders) = (0, 0, 0);
    let (mut narrow, mut wrong): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for entry in entries("suite.jsonl") {
        let grammar = Grammar::JsonSchema(entry.schema);
        if model.vocabulary.constraint(&grammar).is_err() {
            continue;
        }
        for (data, valid) in entry.tests {
            let texts: Vec<String> = in_all_orders(&data).iter().map(Value::to_string).collect();
            let found = texts.iter().position(|text| model.accepts(&grammar, text));
            match (valid, found) {
                (true, Some(order)) => {
                    accepted += 1;
                    orders += usize::from(order > 0);
                }
                (true, None) => narrow.push(format!("{} {data}", entry.name)),
                (false, None) => rejected += 1,
                (false, Some(order)) => wrong.push(format!("{}: {}", entry.name, texts[order])),
            }
        }
    }
    println!("{accepted} valid instances pass, {orders} in another order, {rejected} invalid ones do not");
    println!("{} valid instances do not pass", narrow.len());
    assert!(wrong.is_empty(), "invalid instances pass:\n{}", wrong.join("\n"));
    // What is known to be narrower: formats, whole numbers written as fractions, numbers and characters at the edges.
    narrow.retain(|line| !line.contains("/optional/") && !line.contains("format.json"));
    narrow.retain(|line| !line.trim_end_matches(']').ends_with(".0"));
    assert!(narrow.is_empty(), "valid instances do not pass:\n{}", narrow.join("\n"));
    assert!(accepted > 2_000 && rejected > 1_500, "{accepted} pass, {rejected} do not");
}

/// A value with the properties of its objects in all orders, a few at most.
fn in_all_orders(value: &Value) -> Vec<Value> {
    const MOST: usize = 6;
    match value {
        Value::Array(items) => {
            let mut all = vec![Vec::new()];
            for item in items {
                let orders = in_all_orders(item);
                let longer = all.iter().flat_map(|list| {
                    orders.iter().map(move |order| [list.clone(), vec![order.clone()]].concat())
                });
                all = longer.take(MOST).collect();
            }
            all.into_iter().map(Value::from).collect()
        }
        Value::Object(fields) => {
            let mut all: Vec<Vec<(String, Value)>> = vec![Vec::new()];
            for (key, value) in fields {
                let orders = in_all_orders(value);
                let mut longer = Vec::new();
                for list in &all {
                    for at in (0..=list.len()).rev() {
                        for order in &orders {
                            let mut list = list.clone();
                            list.insert(at, (key.clone(), order.clone()));
                            longer.push(list);
                        }
                    }
                }
                longer.truncate(MOST);
                all = longer;
            }
            all.into_iter().map(|list| Value::Object(list.into_iter().collect())).collect()
        }
        other => vec![other.clone()],
    }
}
