//! The description of the API is what the server does.

use serde_json::{Value, json};

use super::harness::Plan;

/// The routes as the code has them.
const ROUTES: &str = include_str!("../../src/api/mod.rs");

#[test]
fn every_route_is_described() {
    let server = Plan::new(&["mock"]).start();
    let description = server.get("/openapi.json").json();
    let paths = description["paths"].as_object().unwrap();
    let routes: Vec<(String, &str)> = ROUTES
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once("\", "))
        .map(|(path, rest)| (path.replace("{*", "{"), rest.split('(').next().unwrap()))
        .collect();
    assert!(routes.len() > 10);
    for (path, method) in &routes {
        assert!(paths.get(path).is_some_and(|path| path.get(method).is_some()), "{method} {path}");
    }
    assert_eq!(paths.len(), routes.len());
}

#[test]
fn every_described_parameter_is_taken() {
    let server = Plan::new(&["mock"]).start();
    let description = server.get("/openapi.json").json();
    let asked = [
        (
            "/v1/chat/completions",
            json!({ "messages": [{ "role": "user", "content": "a" }], "max_tokens": 1 }),
        ),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": 1 })),
        ("/v1/embeddings", json!({ "input": "a" })),
        ("/tokenize", json!({ "content": "a" })),
        ("/detokenize", json!({ "tokens": [1] })),
        ("/apply-template", json!({ "messages": [{ "role": "user", "content": "a" }] })),
        ("/v1/responses", json!({ "input": "a", "max_output_tokens": 1 })),
        ("/v1/messages", json!({ "messages": [{ "role": "user", "content": "a" }], "max_tokens": 1 })),
        ("/v1/messages/count_tokens", json!({ "messages": [{ "role": "user", "content": "a" }] })),
        ("/api/chat", json!({ "model": "mock" })),
        ("/api/generate", json!({ "model": "mock" })),
        ("/api/embed", json!({ "model": "mock", "input": "a" })),
        ("/api/embeddings", json!({ "model": "mock", "prompt": "a" })),
        ("/api/show", json!({ "model": "mock" })),
    ];
    let unknown = "is not a parameter of this request";
    for (path, mut body) in asked {
        let schema =
            &description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let name = schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let schema = &description["components"]["schemas"][name];
        for parameter in schema["properties"].as_object().unwrap().keys() {
            if body.get(parameter).is_none() {
                body[parameter] = Value::Null;
            }
        }
        let response = server.post(path, &body);
        assert!(response.status == 200 || path.contains("embed"), "{path} {response:?}");
        assert!(!response.body.contains(unknown), "{response:?}");
        body["surely_not"] = Value::Null;
        assert!(server.post(path, &body).body.contains(unknown), "{path}");
    }
}
