//! Anthropic's messages.

use gleed_server::Keys;
use serde_json::{Value, json};

use super::dialects::{
    TEMPLATE, chat_tokens, chat_with_call, joined, kinds, named, parameters, server, server_without_reasoning,
};
use super::harness::{Plan, Server, merge};
use super::http::{Response, exchange, request};

/// Asks the story model for the likeliest answer; further fields are added.
fn ask(server: &Server, fields: Value) -> Response {
    let mut body = json!({
        "model": "story", "max_tokens": 12, "temperature": 0,
        "messages": [{ "role": "user", "content": "Once upon a time" }],
    });
    merge(&mut body, fields);
    server.post("/v1/messages", &body)
}

fn look() -> Value {
    json!([{ "name": "look", "description": "Looks.", "input_schema": parameters() }])
}

/// The last events say what the whole message does.
fn check_end(events: &[(String, Value)], whole: &Value) {
    let delta = &events[events.len() - 2].1;
    assert_eq!(delta["delta"]["stop_reason"], whole["stop_reason"]);
    assert_eq!(delta["delta"]["stop_sequence"], whole["stop_sequence"]);
    assert_eq!(delta["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
    assert_eq!(all_input(&delta["usage"]), all_input(&whole["usage"]));
    assert_eq!(all_input(&events[0].1["message"]["usage"]), all_input(&whole["usage"]));
    assert_eq!(events[0].1["message"]["content"], json!([]));
    assert_eq!(events[0].1["message"]["stop_reason"], Value::Null);
}

/// All tokens of a prompt, cached or not.
fn all_input(usage: &Value) -> u64 {
    let count = |name: &str| usage[name].as_u64().unwrap();
    count("input_tokens") + count("cache_read_input_tokens") + count("cache_creation_input_tokens")
}

#[test]
fn a_message_is_given_in_one_piece_and_in_events() {
    let server = server();
    let whole = ask(&server, json!({})).json();
    let chat = server.chat(json!({ "temperature": 0, "max_tokens": 12 })).json();
    let text = chat["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(whole["content"], json!([{ "type": "text", "text": text }]));
    assert_eq!((&whole["type"], &whole["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!("max_tokens"), &Value::Null));
    assert_eq!(whole["usage"]["output_tokens"], 12);
    assert_eq!(all_input(&whole["usage"]), chat["usage"]["prompt_tokens"].as_u64().unwrap());
    let events = named(&ask(&server, json!({ "stream": true })));
    assert_eq!(
        kinds(&events),
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(joined(&events, "content_block_delta", "/delta/text"), text);
    check_end(&events, &whole);
    // A stop string, which is told.
    let whole = ask(&server, json!({ "stop_sequences": ["girl", "boy"] })).json();
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!("stop_sequence"), &json!("girl")));
    check_end(&named(&ask(&server, json!({ "stop_sequences": ["girl", "boy"], "stream": true }))), &whole);
    // The context ends before the answer.
    let messages = json!([{ "role": "user", "content": "a ".repeat(235) }]);
    let full = ask(&server, json!({ "messages": messages, "max_tokens": 5000 })).json();
    assert_eq!(full["stop_reason"], "model_context_window_exceeded", "{full}");
}

#[test]
fn a_last_message_of_the_assistant_is_continued() {
    let server = server();
    let first = ask(&server, json!({ "max_tokens": 4 })).json();
    let begun = first["content"][0]["text"].as_str().unwrap();
    let messages = json!([
        { "role": "user", "content": [{ "type": "text", "text": "Once upon a time", "cache_control": { "type": "ephemeral" } }] },
        { "role": "assistant", "content": begun },
    ]);
    let rest = ask(&server, json!({ "messages": messages, "max_tokens": 8 })).json();
    let whole = ask(&server, json!({})).json();
    let rest = rest["content"][0]["text"].as_str().unwrap();
    assert_eq!(whole["content"][0]["text"], format!("{begun}{rest}"));
}

#[test]
fn thinking_is_a_block_of_its_own() {
    let server = server();
    let wishes = json!({ "thinking": { "type": "enabled", "budget_tokens": 5 } });
    let whole = ask(&server, wishes.clone()).json();
    let [block] = whole["content"].as_array().unwrap().as_slice() else { panic!("{whole}") };
    assert_eq!((&block["type"], &block["signature"]), (&json!("thinking"), &json!("")));
    assert_eq!(whole["usage"]["output_tokens_details"]["thinking_tokens"], 12);
    let mut streamed = wishes;
    streamed["stream"] = json!(true);
    let events = named(&ask(&server, streamed));
    assert_eq!(
        joined(&events, "content_block_delta", "/delta/thinking"),
        block["thinking"].as_str().unwrap()
    );
    check_end(&events, &whole);
    let whole = ask(&server, json!({ "thinking": { "type": "disabled" } })).json();
    assert_eq!(whole["content"][0]["type"], "text");
}

#[test]
fn calls_are_blocks_whose_input_follows_its_schema() {
    let server = server_without_reasoning();
    for choice in [
        json!({ "type": "any", "disable_parallel_tool_use": true }),
        json!({ "type": "tool", "name": "look", "disable_parallel_tool_use": true }),
    ] {
        let wishes = json!({ "tools": look(), "tool_choice": choice, "max_tokens": 200 });
        let whole = ask(&server, wishes.clone()).json();
        let [block] = whole["content"].as_array().unwrap().as_slice() else { panic!("{whole}") };
        assert_eq!((&block["type"], &block["name"]), (&json!("tool_use"), &json!("look")));
        assert_eq!(whole["stop_reason"], "tool_use");
        assert!(block["input"]["at"] == "sky" || block["input"]["at"] == "sea", "{whole}");
        let mut streamed = wishes;
        streamed["stream"] = json!(true);
        let events = named(&ask(&server, streamed));
        let begun = events.iter().find(|(kind, _)| kind == "content_block_start").unwrap();
        assert_eq!(begun.1["content_block"]["input"], json!({}));
        let input = joined(&events, "content_block_delta", "/delta/partial_json");
        assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), block["input"]);
        check_end(&events, &whole);
    }
}

#[test]
fn blocks_are_the_messages_of_a_chat_and_are_counted() {
    let server = server();
    let messages = json!([
        { "role": "user", "content": "What is there?" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "Hm.", "signature": "" },
            { "type": "text", "text": "Let me see." },
            { "type": "tool_use", "id": "call_1", "name": "look", "input": { "at": "sky" } },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "call_1", "content": [{ "type": "text", "text": "a star" }] },
            { "type": "text", "text": "Good." },
        ] },
    ]);
    let asked =
        json!({ "messages": messages, "tools": look(), "system": [{ "type": "text", "text": "Be kind." }] });
    let tokens = chat_tokens(&server, chat_with_call());
    let whole = ask(&server, asked.clone()).json();
    assert_eq!(all_input(&whole["usage"]), tokens as u64, "{whole}");
    let mut counted = asked;
    counted["model"] = json!("story");
    assert_eq!(server.post("/v1/messages/count_tokens", &counted).json(), json!({ "input_tokens": tokens }));
    counted["max_tokens"] = json!(5);
    assert_eq!(server.post("/v1/messages/count_tokens", &counted).status, 400);
}

#[test]
fn problems_are_told_in_its_words() {
    let server = server();
    let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
    for (fields, named) in [
        (json!({ "max_tokens": null }), "max_tokens"),
        (json!({ "temperature": 1.5 }), "temperature"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "stop_sequences": "a" }), "stop_sequences"),
        (json!({ "top_k": -1 }), "top_k"),
        (json!({ "mcp_servers": [] }), "mcp_servers"),
        (json!({ "container": "c" }), "container"),
        (json!({ "speed": "fast" }), "speed"),
        (json!({ "thinking": { "type": "enabled" } }), "thinking.budget_tokens"),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 12 } }), "thinking.budget_tokens"),
        (
            json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }),
            "web_search_20250305",
        ),
        (json!({ "tools": [{ "name": "a b", "input_schema": {} }] }), "tools[0].name"),
        (json!({ "tool_choice": { "type": "any" } }), "tool_choice"),
        (json!({ "tools": look(), "tool_choice": { "type": "tool", "name": "jump" } }), "jump"),
        (user(json!([{ "type": "image", "source": {} }])), "image"),
        (user(json!([{ "type": "tool_result", "tool_use_id": "x" }])), "tool_use_id"),
        (user(json!([{ "type": "thinking", "thinking": "" }])), "thinking"),
        (user(json!("a b c ".repeat(300))), "context"),
        (json!({ "metadata": { "name": "n" } }), "metadata.name"),
        (json!({ "frobnicate": 1 }), "frobnicate"),
    ] {
        let response = ask(&server, fields.clone());
        assert_eq!(response.status, 400, "{fields} {response:?}");
        let body = response.json();
        assert_eq!(
            (&body["type"], &body["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{fields} {message}");
    }
    let response = ask(&server, json!({ "model": "other" }));
    assert_eq!((response.status, &response.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(server.get("/v1/messages").json()["error"]["type"], "invalid_request_error");
    assert_eq!(server.get("/v1/messages/batches").json()["error"]["type"], "not_found_error");
}

#[test]
fn its_key_opens_too() {
    let mut plan = Plan { template: Some(TEMPLATE), ..Plan::new(&["mock"]) };
    plan.settings.keys = Keys::new(["secret".to_string()]);
    let server = plan.start();
    let body = json!({ "max_tokens": 1, "messages": [{ "role": "user", "content": "a" }] }).to_string();
    let ask = |key: &str| {
        let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
        exchange(server.address, &request("POST", "/v1/messages", &headers, &body))
    };
    assert_eq!(ask("secret").status, 200);
    let response = ask("public");
    assert_eq!((response.status, &response.json()["error"]["type"]), (401, &json!("authentication_error")));
}
