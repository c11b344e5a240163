//! Ollama's API.

use serde_json::{Value, json};

use super::dialects::{chat_tokens, chat_with_call, parameters, server, server_without_reasoning};
use super::harness::{Plan, Server, merge};
use super::http::Response;

/// Options of the likeliest answer.
fn likeliest(most: usize) -> Value {
    json!({ "temperature": 0, "repeat_penalty": 1, "num_predict": most })
}

/// Asks the story model; further fields are added.
fn chat(server: &Server, fields: Value) -> Response {
    let messages = json!([{ "role": "user", "content": "Once upon a time" }]);
    let mut body = json!({ "model": "story", "messages": messages, "options": likeliest(12) });
    merge(&mut body, fields);
    server.post("/api/chat", &body)
}

fn generate(server: &Server, fields: Value) -> Response {
    let mut body = json!({ "model": "story", "prompt": "Once upon a time", "options": likeliest(9) });
    merge(&mut body, fields);
    server.post("/api/generate", &body)
}

fn look() -> Value {
    json!([{ "type": "function", "function": { "name": "look", "description": "Looks.", "parameters": parameters() } }])
}

/// The lines of a stream.
fn lines(response: &Response) -> Vec<Value> {
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"), "{response:?}");
    response.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts that all lines have in one place, joined.
fn joined(lines: &[Value], place: &str) -> String {
    lines.iter().filter_map(|line| line.pointer(place)?.as_str()).collect()
}

/// The last of the lines, all others of which are not.
fn last(lines: &[Value]) -> &Value {
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false && line.get("eval_count").is_none()));
    assert_eq!(last["done"], true);
    last
}

#[test]
fn a_chat_is_answered_in_lines_unless_in_one_piece() {
    let server = server();
    let whole = chat(&server, json!({ "stream": false, "logprobs": true, "top_logprobs": 2 })).json();
    let same = server.chat(json!({ "temperature": 0, "max_tokens": 12 })).json();
    let text = same["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(whole["message"], json!({ "role": "assistant", "content": text }));
    assert_eq!((&whole["done"], &whole["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!(whole["eval_count"], 12);
    assert_eq!(whole["prompt_eval_count"], same["usage"]["prompt_tokens"]);
    assert_eq!(whole["logprobs"].as_array().unwrap().len(), 12);
    assert_eq!(whole["logprobs"][0]["top_logprobs"].as_array().unwrap().len(), 2);
    let duration = |name: &str| whole[name].as_u64().unwrap_or_else(|| panic!("{name}: {whole}"));
    assert!(duration("total_duration") >= duration("eval_duration") + duration("prompt_eval_duration"));
    assert!(duration("eval_duration") > 0 && duration("total_duration") > duration("load_duration"));
    let created = whole["created_at"].as_str().unwrap();
    assert!(created.len() == 30 && created.starts_with("20") && created.ends_with('Z'), "{created}");
    let lines = lines(&chat(&server, json!({})));
    assert!(lines.len() > 5);
    assert_eq!(joined(&lines, "/message/content"), text);
    assert_eq!(last(&lines)["eval_count"], 12);
    assert_eq!(last(&lines)["done_reason"], "length");
    // It is reproduced by its seed.
    let options = json!({ "seed": 5, "num_predict": 12, "temperature": 1.2 });
    let ask = || chat(&server, json!({ "stream": false, "options": options })).json()["message"].clone();
    assert_eq!(ask(), ask());
}

#[test]
fn a_prompt_is_answered_raw_or_as_a_message() {
    let server = server();
    let raw = generate(&server, json!({ "raw": true, "stream": false })).json();
    // What the engine's own documentation shows for this prompt.
    assert_eq!(raw["response"], ", there was a little girl named Lily");
    assert_eq!((&raw["prompt_eval_count"], &raw["eval_count"]), (&json!(5), &json!(9)));
    let found = lines(&generate(&server, json!({ "raw": true })));
    assert_eq!(joined(&found, "/response"), ", there was a little girl named Lily");
    assert_eq!(last(&found)["eval_count"], 9);
    let asked = generate(&server, json!({ "system": "Be kind.", "stream": false })).json();
    let messages = json!([{ "role": "system", "content": "Be kind." }, { "role": "user", "content": "Once upon a time" }]);
    assert_eq!(asked["prompt_eval_count"], chat_tokens(&server, json!({ "messages": messages })));
    let stopped = generate(
        &server,
        json!({ "raw": true, "stream": false, "options": { "temperature": 0, "stop": ["girl"] } }),
    );
    assert_eq!(stopped.json()["response"], ", there was a little ");
    assert_eq!(stopped.json()["done_reason"], "stop");
}

#[test]
fn thinking_and_calls_stand_by_themselves() {
    let server = server();
    let whole = chat(&server, json!({ "think": true, "stream": false })).json();
    assert_eq!(whole["message"]["content"], "");
    let found = lines(&chat(&server, json!({ "think": true })));
    assert_eq!(joined(&found, "/message/thinking"), whole["message"]["thinking"].as_str().unwrap());
    let whole = chat(&server, json!({ "think": false, "stream": false })).json();
    assert_eq!(whole["message"].get("thinking"), None);
    // A conversation with a call, which Ollama's clients send without ids.
    let call = json!({ "function": { "name": "look", "arguments": { "at": "sky" } } });
    let messages = json!([
        { "role": "system", "content": "Be kind." },
        { "role": "user", "content": "What is there?" },
        { "role": "assistant", "content": "Let me see.", "thinking": "Hm.", "tool_calls": [call] },
        { "role": "tool", "tool_name": "look", "content": "a star" },
        { "role": "user", "content": "Good.", "images": [] },
    ]);
    let whole = chat(&server, json!({ "messages": messages, "tools": look(), "stream": false })).json();
    assert_eq!(whole["prompt_eval_count"], chat_tokens(&server, chat_with_call()));
}

#[test]
fn calls_come_whole_and_their_arguments_follow_their_schema() {
    let server = server_without_reasoning();
    let wishes = json!({ "tools": look(), "tool_choice": "required", "options": likeliest(200) });
    let found = lines(&chat(&server, wishes));
    let calls: Vec<&Value> =
        found.iter().filter_map(|line| line["message"]["tool_calls"].as_array()).flatten().collect();
    assert!(!calls.is_empty(), "{found:?}");
    for (index, call) in calls.iter().enumerate() {
        let function = &call["function"];
        assert_eq!((&function["name"], &function["index"]), (&json!("look"), &json!(index)));
        assert!(function["arguments"]["at"] == "sky" || function["arguments"]["at"] == "sea", "{call}");
    }
    // A call that is cut is not told, and the reason is.
    let wishes =
        json!({ "tools": look(), "tool_choice": "required", "options": likeliest(4), "stream": false });
    let cut = chat(&server, wishes).json();
    assert_eq!((&cut["done_reason"], cut["message"].get("tool_calls")), (&json!("length"), None));
}

#[test]
fn answers_have_the_form_that_is_asked_for() {
    let server = server();
    let options = json!({ "num_predict": 200, "temperature": 0 });
    for raw in [false, true] {
        let asked = generate(
            &server,
            json!({ "format": parameters(), "raw": raw, "stream": false, "options": options }),
        );
        let found: Value = serde_json::from_str(asked.json()["response"].as_str().unwrap()).unwrap();
        assert!(found["at"] == "sky" || found["at"] == "sea", "{found}");
    }
    let found = lines(&chat(&server, json!({ "format": parameters(), "options": options })));
    let found: Value = serde_json::from_str(&joined(&found, "/message/content")).unwrap();
    assert!(found["at"] == "sky" || found["at"] == "sea", "{found}");
}

#[test]
fn models_are_told() {
    let server = Plan::new(&["story", "mock"]).start();
    let names = |path: &str| -> Vec<Value> {
        let models = server.get(path).json()["models"].as_array().unwrap().clone();
        models.into_iter().map(|model| model["name"].clone()).collect()
    };
    assert_eq!(names("/api/tags"), ["story", "mock"]);
    assert_eq!(names("/api/ps"), [] as [&str; 0]);
    // A chat without messages and a prompt without words load the model.
    let loaded = server.post("/api/chat", &json!({ "model": "mock:latest", "keep_alive": "5m" })).json();
    assert_eq!((&loaded["done"], &loaded["done_reason"]), (&json!(true), &json!("load")));
    assert_eq!(names("/api/ps"), ["mock"]);
    assert_eq!(server.post("/api/generate", &json!({ "model": "mock" })).json()["response"], "");
    let shown = server.post("/api/show", &json!({ "model": "mock" })).json();
    assert_eq!(shown["capabilities"], json!(["completion"]));
    assert!(shown["model_info"].is_object() && shown["template"].is_string());
    assert!(server.get("/api/version").json()["version"].as_str().unwrap().split('.').count() == 3);
}

#[test]
fn problems_are_told_in_its_words() {
    let server = server();
    let option = |name: &str, value: Value| json!({ "options": { name: value } });
    for (fields, named) in [
        (option("mirostat", json!(1)), "options.mirostat"),
        (option("tfs_z", json!(0.5)), "options.tfs_z"),
        (option("num_ctx", json!(1_000_000)), "options.num_ctx"),
        (option("num_predict", json!(0)), "options.num_predict"),
        (option("temperature", json!("hot")), "options.temperature"),
        (option("frobnicate", json!(1)), "options.frobnicate"),
        (json!({ "template": "{{ .Prompt }}" }), "template"),
        (json!({ "context": [1, 2] }), "context"),
        (json!({ "suffix": "x" }), "suffix"),
        (json!({ "images": ["aGk="] }), "images"),
        (json!({ "format": "xml" }), "format"),
        (json!({ "think": "much" }), "think"),
        (json!({ "raw": true, "system": "s" }), "raw"),
        (json!({ "keep_alive": "long" }), "keep_alive"),
        (json!({ "prompt": "", "keep_alive": 0 }), "keep_alive"),
        (json!({ "truncate": true }), "truncate"),
        (json!({ "prompt": "a b c ".repeat(300) }), "context"),
        (json!({ "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "model": null }), "model"),
        (json!({ "frobnicate": 1 }), "frobnicate"),
    ] {
        let response = generate(&server, fields.clone());
        assert_eq!(response.status, 400, "{fields} {response:?}");
        let body = response.json();
        assert!(body["error"].as_str().is_some_and(|error| error.contains(named)), "{fields} {body}");
    }
    let message = |message: Value| json!({ "messages": [message] });
    for (fields, named) in [
        (message(json!({ "role": "user", "content": "a", "images": ["aGk="] })), "messages[0].images"),
        (message(json!({ "role": "tool", "content": "a" })), "messages[0].role"),
        (message(json!({ "role": "king", "content": "a" })), "messages[0].role"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
        (json!({ "prompt": "a" }), "prompt"),
    ] {
        let response = chat(&server, fields.clone());
        assert_eq!(response.status, 400, "{fields} {response:?}");
        assert!(response.json()["error"].as_str().unwrap().contains(named), "{fields} {response:?}");
    }
    assert_eq!(chat(&server, json!({ "model": "other" })).status, 404);
    assert!(server.post("/api/pull", &json!({ "model": "story" })).json()["error"].is_string());
    // A model of texts gives no vectors.
    for (path, fields) in
        [("/api/embed", json!({ "input": "a" })), ("/api/embeddings", json!({ "prompt": "a" }))]
    {
        let mut body = json!({ "model": "story", "options": { "num_ctx": 64 } });
        merge(&mut body, fields);
        let response = server.post(path, &body);
        assert_eq!(response.status, 400, "{response:?}");
        assert!(response.json()["error"].is_string(), "{response:?}");
    }
    // What changes nothing here is taken.
    let harmless = json!({
        "stream": false, "keep_alive": -1, "format": "", "truncate": false,
        "options": { "num_predict": 1, "num_ctx": 64, "num_thread": 2, "num_gpu": 1, "mirostat": 0, "num_keep": 4 },
    });
    assert_eq!(generate(&server, harmless).status, 200);
}
