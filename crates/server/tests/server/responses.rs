//! OpenAI's responses.

use serde_json::{Value, json};

use super::dialects::{
    chat_tokens, chat_with_call, joined, kinds, named, parameters, server, server_without_reasoning,
};
use super::harness::{Server, merge};
use super::http::Response;

/// Asks the story model for the likeliest answer; further fields are added.
fn ask(server: &Server, fields: Value) -> Response {
    let mut body = json!({ "input": "Once upon a time", "temperature": 0, "max_output_tokens": 12 });
    merge(&mut body, fields);
    server.post("/v1/responses", &body)
}

fn look() -> Value {
    json!([{ "type": "function", "name": "look", "description": "Looks.", "parameters": parameters() }])
}

/// A response without what differs from one to the next.
fn timeless(mut response: Value) -> Value {
    let fields = response.as_object_mut().unwrap();
    fields.remove("id");
    fields.remove("created_at");
    for item in fields["output"].as_array_mut().unwrap() {
        let item = item.as_object_mut().unwrap();
        item.remove("id");
        item.remove("call_id");
    }
    // The first request computes the prompt for all.
    fields["usage"].as_object_mut().unwrap().remove("input_tokens_details");
    response
}

/// The last event's response is the whole one, and events are numbered.
fn check_end(events: &[(String, Value)], whole: &Value) {
    let (kind, last) = events.last().unwrap();
    assert_eq!(kind, &format!("response.{}", whole["status"].as_str().unwrap()));
    assert_eq!(timeless(last["response"].clone()), timeless(whole.clone()));
    for (number, (_, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let item_ids: Vec<&Value> = whole["output"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert!(item_ids.iter().all(|id| id.is_string()));
}

#[test]
fn a_response_is_given_in_one_piece_and_in_events() {
    let server = server();
    let whole = ask(&server, json!({ "top_logprobs": 2, "metadata": { "a": "b" } })).json();
    let chat = server.chat(json!({ "temperature": 0, "max_tokens": 12 })).json();
    let text = &chat["choices"][0]["message"]["content"];
    assert_eq!(&whole["output"][0]["content"][0]["text"], text);
    assert_eq!(whole["object"], "response");
    assert_eq!(whole["status"], "incomplete");
    assert_eq!(whole["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(whole["metadata"], json!({ "a": "b" }));
    assert_eq!(whole["store"], false);
    assert_eq!(whole["usage"]["output_tokens"], 12);
    assert_eq!(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
    assert_eq!(whole["output"][0]["content"][0]["logprobs"].as_array().unwrap().len(), 12);
    assert_eq!(whole["output"][0]["content"][0]["logprobs"][3]["top_logprobs"].as_array().unwrap().len(), 2);
    let streamed = json!({ "stream": true, "top_logprobs": 2, "metadata": { "a": "b" } });
    let events = named(&ask(&server, streamed));
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete",
        ]
    );
    assert_eq!(joined(&events, "response.output_text.delta", "/delta"), text.as_str().unwrap());
    assert_eq!(joined(&events, "response.output_text.done", "/text"), text.as_str().unwrap());
    assert_eq!(events[0].1["response"]["status"], "in_progress");
    assert_eq!(events[2].1["item"]["content"], json!([]));
    check_end(&events, &whole);
    // An answer that ends by itself is complete.
    let response = ask(&server, json!({ "stop": "girl", "stream": true }));
    assert_eq!(named(&response).last().unwrap().0, "response.completed");
}

#[test]
fn reasoning_is_an_item_of_its_own() {
    let server = server();
    let wishes = json!({ "reasoning": { "effort": "high", "summary": "auto" } });
    let whole = ask(&server, wishes.clone()).json();
    let [item] = whole["output"].as_array().unwrap().as_slice() else { panic!("{whole}") };
    assert_eq!(item["type"], "reasoning");
    assert_eq!(item["summary"], json!([]));
    assert_eq!(item["status"], "incomplete");
    assert_eq!(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 12);
    let mut streamed = wishes;
    streamed["stream"] = json!(true);
    let events = named(&ask(&server, streamed));
    assert_eq!(
        kinds(&events)[2..],
        [
            "response.output_item.added",
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete",
        ]
    );
    let thought = item["content"][0]["text"].as_str().unwrap();
    assert_eq!(joined(&events, "response.reasoning_text.delta", "/delta"), thought);
    check_end(&events, &whole);
    // It is given back as it came.
    let again = json!([{ "role": "user", "content": "Hm?" }, item, { "role": "user", "content": "So?" }]);
    let response = ask(&server, json!({ "input": again })).json();
    let same = json!({ "messages": [
        { "role": "user", "content": "Hm?" },
        { "role": "assistant", "reasoning_content": thought },
        { "role": "user", "content": "So?" },
    ] });
    assert_eq!(response["usage"]["input_tokens"], chat_tokens(&server, same));
}

#[test]
fn calls_are_items_whose_arguments_follow_their_schema() {
    let server = server_without_reasoning();
    for choice in [
        json!("required"),
        json!({ "type": "function", "name": "look" }),
        json!({ "type": "allowed_tools", "mode": "required", "tools": [{ "type": "function", "name": "look" }] }),
    ] {
        let wishes = json!({ "tools": look(), "tool_choice": choice, "parallel_tool_calls": false, "max_output_tokens": 200 });
        let whole = ask(&server, wishes.clone()).json();
        let [call] = whole["output"].as_array().unwrap().as_slice() else { panic!("{whole}") };
        assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("look")));
        assert_eq!(whole["status"], "completed");
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments == json!({ "at": "sky" }) || arguments == json!({ "at": "sea" }), "{arguments}");
        let mut streamed = wishes;
        streamed["stream"] = json!(true);
        let events = named(&ask(&server, streamed));
        assert_eq!(
            kinds(&events)[2..],
            [
                "response.output_item.added",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.output_item.done",
                "response.completed",
            ]
        );
        let delta = joined(&events, "response.function_call_arguments.delta", "/delta");
        assert_eq!(delta, call["arguments"].as_str().unwrap());
        check_end(&events, &whole);
    }
}

#[test]
fn items_are_the_messages_of_a_chat() {
    let server = server();
    let items = json!([
        { "role": "user", "content": [{ "type": "input_text", "text": "What is there?" }] },
        { "type": "reasoning", "id": "rs_1", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }] },
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": [] }],
        },
        { "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"sky\"}" },
        { "type": "function_call_output", "call_id": "call_1", "output": "a star" },
        { "role": "user", "content": "Good." },
    ]);
    let whole = ask(&server, json!({ "instructions": "Be kind.", "input": items, "tools": look() })).json();
    assert_eq!(whole["usage"]["input_tokens"], chat_tokens(&server, chat_with_call()), "{whole}");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let server = server();
    for (fields, param) in [
        (json!({ "store": true }), "store"),
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "background": true }), "background"),
        (json!({ "truncation": "auto" }), "truncation"),
        (json!({ "include": ["file_search_call.results"] }), "include[0]"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
        (
            json!({ "tools": look(), "tool_choice": { "type": "function", "name": "jump" } }),
            "tool_choice.name",
        ),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "text": { "verbosity": "low" } }), "text.verbosity"),
        (json!({ "text": { "format": { "type": "xml" } } }), "text.format.type"),
        (json!({ "reasoning": { "effort": "much" } }), "reasoning.effort"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": 7 }), "input"),
        (json!({ "input": "a b c ".repeat(300) }), "input"),
        (json!({ "input": [{ "type": "item_reference", "id": "msg_1" }] }), "input[0].type"),
        (
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
            "input[0].content[0].type",
        ),
        (
            json!({ "input": [{ "type": "function_call_output", "call_id": "x", "output": "" }] }),
            "input[0].call_id",
        ),
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "n": 2 }), "n"),
        (json!({ "metadata": { "a": 1 } }), "metadata"),
        (json!({ "frobnicate": 1 }), "frobnicate"),
    ] {
        for stream in [false, true] {
            let mut fields = fields.clone();
            fields["stream"] = json!(stream);
            let response = ask(&server, fields.clone());
            assert_eq!(response.status, 400, "{fields} {response:?}");
            assert_eq!(response.json()["error"]["param"], param, "{fields} {response:?}");
        }
    }
    // What is there anyway may be asked for.
    let harmless = json!({
        "store": false, "background": false, "truncation": "disabled", "service_tier": "auto",
        "include": ["reasoning.encrypted_content"], "user": "u", "prompt_cache_key": "k",
        "text": { "format": { "type": "text" }, "verbosity": "medium" }, "previous_response_id": null,
    });
    assert_eq!(ask(&server, harmless).status, 200);
}
