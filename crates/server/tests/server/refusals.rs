//! What is wrong is told by its name, and never answered.

use serde_json::{Value, json};

use super::harness::{CONTEXT, Plan, Server, merge};
use super::http::{exchange, request};

/// Sends a body and checks the status, the parameter and the code of the problem.
fn refused(server: &Server, path: &str, body: Value, status: u16, param: Value, code: &str) {
    let response = server.post(path, &body);
    assert_eq!(response.status, status, "{body} {response:?}");
    let problem = &response.json()["error"];
    assert_eq!(problem["param"], param, "{body} {problem}");
    assert_eq!(problem["code"], code, "{body} {problem}");
    assert!(problem["message"].as_str().is_some_and(|message| message.len() > 10), "{problem}");
    assert!(problem["type"].is_string());
}

#[test]
fn parameters_are_checked_by_name() {
    let server = Plan::new(&["mock"]).start();
    let chat = |fields: Value, param: &str, code: &str| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 1 });
        merge(&mut body, fields);
        refused(&server, "/v1/chat/completions", body, 400, json!(param), code);
    };
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } });
    for (fields, param) in [
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "n": 1.5 }), "n"),
        (json!({ "seed": "x" }), "seed"),
        (json!({ "stop": 5 }), "stop"),
        (json!({ "stop": ["a", 5] }), "stop[1]"),
        (json!({ "messages": "hi" }), "messages"),
        (json!({ "messages": ["hi"] }), "messages[0]"),
        (json!({ "messages": [{ "role": "king", "content": "hi" }] }), "messages[0].role"),
        (json!({ "messages": [{ "role": "user", "content": 5 }] }), "messages[0].content"),
        (json!({ "logit_bias": [] }), "logit_bias"),
        (json!({ "logprobs": 5 }), "logprobs"),
        (json!({ "tools": {} }), "tools"),
        (json!({ "tools": [{ "type": "web" }] }), "tools[0].type"),
        (json!({ "tool_choice": "always" }), "tool_choice"),
        (json!({ "response_format": "json" }), "response_format"),
        (json!({ "response_format": { "type": "xml" } }), "response_format.type"),
        (json!({ "reasoning_effort": "enormous" }), "reasoning_effort"),
        (json!({ "chat_template_kwargs": 5 }), "chat_template_kwargs"),
        (json!({ "service_tier": "fast" }), "service_tier"),
        (json!({ "model": 5 }), "model"),
        (
            json!({ "messages": [{ "role": "assistant", "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": "f", "arguments": "[1]" } }] }] }),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ] {
        chat(fields, param, "invalid_type");
    }
    for (fields, param) in [
        (json!({ "temperature": 2.1 }), "temperature"),
        (json!({ "temperature": -0.1 }), "temperature"),
        (json!({ "top_p": 1.5 }), "top_p"),
        (json!({ "min_p": -1 }), "min_p"),
        (json!({ "top_k": -2 }), "top_k"),
        (json!({ "n": 0 }), "n"),
        (json!({ "n": 17 }), "n"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "max_completion_tokens": -1 }), "max_completion_tokens"),
        (json!({ "frequency_penalty": 2.5 }), "frequency_penalty"),
        (json!({ "presence_penalty": -2.5 }), "presence_penalty"),
        (json!({ "repetition_penalty": 0 }), "repetition_penalty"),
        (json!({ "logprobs": true, "top_logprobs": 21 }), "top_logprobs"),
        (json!({ "logit_bias": { "5": 101 } }), "logit_bias.5"),
        (json!({ "stop_token_ids": [32000] }), "stop_token_ids[0]"),
    ] {
        chat(fields, param, "value_out_of_range");
    }
    for (fields, param) in [
        (json!({ "messages": [] }), "messages"),
        (json!({ "stop": "" }), "stop"),
        (json!({ "stop": vec!["x"; 17] }), "stop"),
        (json!({ "stop": "x".repeat(1025) }), "stop"),
        (json!({ "logit_bias": { "32000": 1 } }), "logit_bias.32000"),
        (json!({ "logit_bias": { "x": 1 } }), "logit_bias.x"),
        (json!({ "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "stream_options": { "include_usage": true } }), "stream_options"),
        (json!({ "max_tokens": 2, "max_completion_tokens": 3 }), "max_tokens"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (
            json!({ "tools": [tool], "tool_choice": { "type": "function", "function": { "name": "g" } } }),
            "tool_choice.function.name",
        ),
        (json!({ "tools": [tool, tool] }), "tools[1]"),
        (
            json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }),
            "tools[0].function.name",
        ),
        (json!({ "regex": "a", "grammar": "start: \"a\"" }), "response_format"),
        (json!({ "continue_final_message": true }), "continue_final_message"),
        (json!({ "regex": "x".repeat(300_000) }), "regex"),
    ] {
        chat(fields, param, "invalid_value");
    }
    for (fields, param) in [
        (json!({ "functions": [] }), "functions"),
        (json!({ "audio": {} }), "audio"),
        (json!({ "store": true }), "store"),
        (json!({ "prediction": {} }), "prediction"),
        (json!({ "tools": [tool] }), "tools"),
        (json!({ "reasoning_effort": "low" }), "reasoning_effort"),
        (
            json!({ "chat_template_kwargs": { "enable_thinking": true } }),
            "chat_template_kwargs.enable_thinking",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": "http://x" } }] }] }),
            "messages[0].content[0].type",
        ),
    ] {
        chat(fields, param, "unsupported_parameter");
    }
    for (fields, param) in [
        (json!({ "temprature": 1 }), "temprature"),
        (json!({ "stream": true, "stream_options": { "x": 1 } }), "stream_options.x"),
        (json!({ "messages": [{ "role": "user", "content": "a", "colour": "red" }] }), "messages[0].colour"),
    ] {
        chat(fields, param, "unknown_parameter");
    }
    let missing = "missing_required_parameter";
    chat(json!({ "messages": null }), "messages", missing);
    chat(json!({ "messages": [{ "content": "a" }] }), "messages[0].role", missing);
    chat(json!({ "messages": [{ "role": "user" }] }), "messages[0].content", missing);
    chat(json!({ "messages": [{ "role": "tool", "content": "a" }] }), "messages[0].tool_call_id", missing);
    chat(json!({ "messages": [{ "role": "assistant" }] }), "messages[0].content", missing);
    // Nothing of all this reached the engine.
    assert_eq!(server.wires.steps.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn what_changes_nothing_is_taken() {
    let server = Plan::new(&["mock"]).start();
    let harmless = json!({
        "user": "me", "metadata": { "a": "b" }, "store": false, "service_tier": "auto", "safety_identifier": "x",
        "prompt_cache_key": "x", "modalities": ["text"], "temperature": null, "stop": [], "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": true, "response_format": { "type": "text" },
        "reasoning_effort": "none", "max_tokens": 3,
    });
    let response = server.chat(harmless);
    assert_eq!(response.status, 200, "{response:?}");
    let body = json!({ "messages": [
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }], "name": "x" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } }] },
        { "role": "tool", "tool_call_id": "1", "content": "3" },
    ]});
    let prompt = server.post("/apply-template", &body).json();
    assert!(
        prompt["prompt"].as_str().unwrap().starts_with("System: Be brief.\nUser: one\ntwo\n"),
        "{prompt}"
    );
}

#[test]
fn other_endpoints_check_too() {
    let server = Plan::new(&["mock"]).start();
    for (path, body, param, code) in [
        ("/v1/completions", json!({}), "prompt", "missing_required_parameter"),
        ("/v1/completions", json!({ "prompt": 5 }), "prompt", "invalid_type"),
        ("/v1/completions", json!({ "prompt": [] }), "prompt", "invalid_value"),
        ("/v1/completions", json!({ "prompt": [1, -5] }), "prompt[1]", "value_out_of_range"),
        ("/v1/completions", json!({ "prompt": [[1], [32000]] }), "prompt[1][0]", "value_out_of_range"),
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" }), "suffix", "unsupported_parameter"),
        ("/v1/completions", json!({ "prompt": "a", "best_of": 3 }), "best_of", "unsupported_parameter"),
        (
            "/v1/completions",
            json!({ "prompt": "a", "echo": true, "logprobs": 1 }),
            "echo",
            "unsupported_parameter",
        ),
        ("/v1/completions", json!({ "prompt": "a", "messages": [] }), "messages", "unknown_parameter"),
        ("/v1/embeddings", json!({ "input": "a" }), "model", "unsupported_model"),
        (
            "/v1/embeddings",
            json!({ "input": "a", "encoding_format": "hex" }),
            "encoding_format",
            "invalid_type",
        ),
        ("/tokenize", json!({}), "content", "missing_required_parameter"),
        ("/detokenize", json!({ "tokens": [1, 32000] }), "tokens[1]", "value_out_of_range"),
        ("/detokenize", json!({ "tokens": [], "x": 1 }), "x", "unknown_parameter"),
        ("/apply-template", json!({ "messages": [] }), "messages", "invalid_value"),
    ] {
        refused(&server, path, body, 400, json!(param), code);
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let server = Plan::new(&["mock"]).start();
    let path = "/v1/chat/completions";
    let raw = |bytes: &str| exchange(server.address, bytes);
    let mut deep = "[".repeat(20_000);
    deep += &"]".repeat(20_000);
    for body in ["", "{", "[]", "5", "{\"messages\": }", "\u{0}", &deep, &format!("{{\"tools\": {deep}}}")] {
        let response = raw(&request("POST", path, &[], body));
        assert_eq!(response.status, 400, "{response:?}");
        assert_eq!(response.json()["error"]["type"], "invalid_request_error");
    }
    let response = raw(&request("POST", path, &[], &"x".repeat((16 << 20) + 1)));
    assert_eq!((response.status, &response.json()["error"]["code"]), (413, &json!("body_too_large")));
    refused(
        &server,
        path,
        json!({ "model": "gpt-9", "messages": [] }),
        404,
        json!("model"),
        "model_not_found",
    );
    let response = server.get("/v1/models/gpt-9");
    assert_eq!((response.status, &response.json()["error"]["code"]), (404, &json!("model_not_found")));
    for (method, path, status) in [
        ("GET", path, 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/nothing", 404),
        ("POST", "/../../etc/passwd", 404),
        ("GET", "/v1/models/../../../etc/passwd", 404),
    ] {
        let response = raw(&request(method, path, &[], ""));
        assert_eq!(response.status, status, "{method} {path} {response:?}");
        assert!(response.json()["error"]["message"].is_string());
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
    assert_eq!(raw("NONSENSE\r\n\r\n").status, 400);
}

#[test]
fn a_prompt_past_the_context_is_refused() {
    let server = Plan::new(&["mock"]).start();
    let tokens = |count: usize| json!({ "prompt": vec![5; count], "max_tokens": 9 });
    refused(&server, "/v1/completions", tokens(CONTEXT + 1), 400, json!("prompt"), "context_length_exceeded");
    // One that fills it has room for a last token, which needs no position.
    let body = server.post("/v1/completions", &tokens(CONTEXT)).json();
    assert_eq!(body["usage"]["completion_tokens"], 1);
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    let long = json!({ "messages": [{ "role": "user", "content": "word ".repeat(CONTEXT) }] });
    refused(&server, "/v1/chat/completions", long, 400, json!("messages"), "context_length_exceeded");
}
