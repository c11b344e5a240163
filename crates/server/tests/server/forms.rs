//! Answers that must have a form, from a model that knows none: an executor without a model says anything at all, so
//! that whatever has the form has it because it must.

use serde_json::{Value, json};

use super::harness::{Plan, Server};

/// A template that shows tools and their calls as Hermes and Qwen do, and prints what it is given of calls.
const TEMPLATE: &str = r#"{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
{% endif %}{% for message in messages %}{{ message.role }}: {{ message.content }}
{% for call in message.tool_calls or [] %}{{ call.id }} {{ call.function.name }} {{ call.function.arguments.unit }}
{% endfor %}{% if message.role == 'tool' %}({{ message.tool_call_id }}){% endif %}{% endfor %}assistant:"#;

fn server() -> Server {
    let mut plan = Plan::new(&["mock"]);
    plan.template = Some(TEMPLATE);
    plan.start()
}

fn weather() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "unit": { "enum": ["celsius", "kelvin"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
        "required": ["unit", "days"],
        "additionalProperties": false,
    });
    json!({ "type": "function", "function": { "name": "get_weather", "description": "Weather", "parameters": parameters } })
}

fn now() -> Value {
    json!({ "type": "function", "function": { "name": "now" } })
}

/// Whether a call is one of the tools with arguments of its schema.
fn check(call: &Value) {
    assert!(call["id"].as_str().unwrap().len() > 8, "{call}");
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    match call["function"]["name"].as_str().unwrap() {
        "now" => assert_eq!(arguments, json!({})),
        "get_weather" => {
            assert!(["celsius", "kelvin"].contains(&arguments["unit"].as_str().unwrap()), "{arguments}");
            assert!((1..=9).contains(&arguments["days"].as_i64().unwrap()), "{arguments}");
            assert_eq!(arguments.as_object().unwrap().len(), 2);
        }
        name => panic!("{name}"),
    }
}

#[test]
fn a_call_that_is_demanded_comes() {
    let server = server();
    let mut names = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let mut fields = json!({
            "tools": [weather(), now()], "tool_choice": "required", "parallel_tool_calls": false, "seed": seed,
        });
        let whole = server.chat(fields.clone()).json();
        let choice = &whole["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
        assert_eq!(choice["message"]["content"], Value::Null);
        let calls = choice["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1);
        check(&calls[0]);
        names.insert(calls[0]["function"]["name"].to_string());
        // In pieces it is the same call.
        fields["stream"] = json!(true);
        let chunks = server.chat(fields).chunks();
        let pieces: Vec<&Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
            .flatten()
            .collect();
        assert_eq!(pieces[0]["function"]["name"], calls[0]["function"]["name"]);
        let joined: String =
            pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
        assert_eq!(calls[0]["function"]["arguments"], joined.as_str());
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    }
    assert_eq!(names.len(), 2, "{names:?}");
    let named = json!({ "type": "function", "function": { "name": "now" } });
    let body = server.chat(json!({ "tools": [weather(), now()], "tool_choice": named, "seed": 3 })).json();
    let calls = body["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    assert!(!calls.is_empty() && calls.iter().all(|call| call["function"]["name"] == "now"), "{body}");
    calls.iter().for_each(check);
}

#[test]
fn no_call_comes_where_none_may() {
    let server = server();
    let body = json!({
        "messages": [{ "role": "user", "content": "hi" }], "tools": [weather()], "tool_choice": "none",
    });
    let prompt = server.post("/apply-template", &body).json();
    assert!(!prompt["prompt"].as_str().unwrap().contains("get_weather"));
    let answer = server.chat(json!({ "tools": [weather()], "tool_choice": "none", "max_tokens": 5 })).json();
    assert_eq!(answer["choices"][0]["message"].get("tool_calls"), None);
}

#[test]
fn templates_see_calls_as_objects() {
    let server = server();
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "get_weather", "arguments": "{\"unit\": \"kelvin\"}" } });
    let body = json!({ "tools": [weather()], "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "c1", "content": "290" },
    ]});
    let prompt = server.post("/apply-template", &body).json();
    let prompt = prompt["prompt"].as_str().unwrap();
    assert!(prompt.contains("c1 get_weather kelvin\n"), "{prompt}");
    assert!(prompt.contains("tool: 290\n(c1)"), "{prompt}");
    // The tool as it was sent, in its order, as Python writes it.
    assert!(prompt.contains("{\"type\": \"function\", \"function\": {\"name\": \"get_weather\""), "{prompt}");
}

#[test]
fn an_answer_has_its_form() {
    let server = server();
    let ask = |fields: Value| {
        let body = server.chat(fields).json();
        assert_eq!(body["choices"][0]["finish_reason"], "stop", "{body}");
        body["choices"][0]["message"]["content"].as_str().unwrap().to_string()
    };
    let schema = json!({
        "type": "object",
        "properties": { "size": { "enum": ["small", "large"] }, "count": { "type": "integer", "minimum": 0, "maximum": 99 } },
        "required": ["size", "count"],
        "additionalProperties": false,
    });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema, "strict": true } });
    for seed in 0..4 {
        let found: Value =
            serde_json::from_str(&ask(json!({ "response_format": format, "seed": seed }))).unwrap();
        assert!(["small", "large"].contains(&found["size"].as_str().unwrap()), "{found}");
        assert!((0..100).contains(&found["count"].as_i64().unwrap()), "{found}");
        let found = ask(json!({ "regex": "(yes|no), [0-9]{2}!", "seed": seed }));
        assert!((found.starts_with("yes, ") || found.starts_with("no, ")) && found.ends_with('!'), "{found}");
        for grammar in ["start: \"a\" \"b\" | \"c\"", "root ::= \"a\" \"b\" | \"c\""] {
            let found = ask(json!({ "grammar": grammar, "seed": seed }));
            assert!(["ab", "c"].contains(&found.as_str()), "{found}");
        }
    }
    // All choices keep it, each by itself.
    let body = server.chat(json!({ "regex": "[a-f]{6}", "n": 4, "seed": 1 })).json();
    for choice in body["choices"].as_array().unwrap() {
        let text = choice["message"]["content"].as_str().unwrap();
        assert!(text.len() == 6 && text.chars().all(|c| ('a'..='f').contains(&c)), "{text}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let server = server();
    let format = |schema: Value| json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": schema } } });
    for (fields, param) in [
        (format(json!({ "type": "object", "frobnicate": 1 })), "response_format"),
        (format(json!({ "type": "nonsense" })), "response_format"),
        (json!({ "regex": "(a" }), "regex"),
        (json!({ "grammar": "start: nothing" }), "grammar"),
        (
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": {
            "type": "object", "frobnicate": 1 } } }], "tool_choice": "required" }),
            "tools",
        ),
        (json!({ "tools": [weather()], "tool_choice": "required", "regex": "a" }), "response_format"),
    ] {
        let response = server.chat(fields.clone());
        assert_eq!(
            (response.status, &response.json()["error"]["param"]),
            (400, &json!(param)),
            "{fields} {response:?}"
        );
    }
}
