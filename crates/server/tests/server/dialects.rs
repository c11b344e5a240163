//! What the tests of the other APIs share: a template with reasoning and tools, and events with names.

use serde_json::{Value, json};

use super::harness::{Plan, Server};
use super::http::Response;

/// Knows tools, and a switch that has the answer begin inside reasoning, which the story model never ends.
pub const TEMPLATE: &str = "{% if tools %}{{ tools | tojson }} <tool_call>\n{\"name\": 1, \"arguments\": 2}\n</tool_call>\
    {% endif %}{% for message in messages %}{{ message.role }}: {{ message.reasoning_content }}{{ message.content }}\
    {{ message.tool_calls | tojson if message.tool_calls }}\n{% endfor %}assistant: \
    {% if enable_thinking %}<think>\n{% endif %}";

/// A server with the story model and this template.
pub fn server() -> Server {
    Plan { template: Some(TEMPLATE), ..Plan::new(&["story"]) }.start()
}

/// The same with a template that knows no reasoning: where calls are required, the story model would rather think, and
/// never come to an end.
pub fn server_without_reasoning() -> Server {
    let template = TEMPLATE.split("{% if enable_thinking %}").next();
    Plan { template, ..Plan::new(&["story"]) }.start()
}

/// Names and data of all events; each name is also the data's `type`.
pub fn named(response: &Response) -> Vec<(String, Value)> {
    assert_eq!(response.header("content-type"), Some("text/event-stream"), "{response:?}");
    let events = response.body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    let event = |event: &str| {
        let (name, data) =
            event.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: ")).expect(event);
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        (name.to_string(), data)
    };
    events.map(event).collect()
}

/// The kinds of some events, those that follow each other once.
pub fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    kinds.dedup();
    kinds
}

/// The texts that all events of a kind have in one place, joined.
pub fn joined(events: &[(String, Value)], kind: &str, place: &str) -> String {
    let of_kind = events.iter().filter(|(found, _)| found == kind);
    of_kind.filter_map(|(_, data)| data.pointer(place)?.as_str()).collect()
}

/// How many tokens OpenAI's chats make of a conversation.
pub fn chat_tokens(server: &Server, conversation: Value) -> usize {
    let response = server.post("/apply-template", &conversation);
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["tokens"].as_array().unwrap().len()
}

/// A conversation with a call and its result, in OpenAI's words.
pub fn chat_with_call() -> Value {
    let function = json!({ "name": "look", "arguments": "{\"at\":\"sky\"}" });
    json!({
        "messages": [
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": "What is there?" },
            {
                "role": "assistant", "content": "Let me see.", "reasoning_content": "Hm.",
                "tool_calls": [{ "id": "call_1", "type": "function", "function": function }],
            },
            { "role": "tool", "tool_call_id": "call_1", "content": "a star" },
            { "role": "user", "content": "Good." },
        ],
        "tools": [{ "type": "function", "function": { "name": "look", "description": "Looks.", "parameters": parameters() } }],
    })
}

/// The schema of the tool's arguments.
pub fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "at": { "enum": ["sky", "sea"] } },
        "required": ["at"],
        "additionalProperties": false,
    })
}
