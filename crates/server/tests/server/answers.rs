//! What a client sees that asks properly.

use serde_json::{Value, json};

use super::harness::Plan;

/// The text of a completion's choice.
fn text(body: &Value, choice: usize) -> &str {
    body["choices"][choice]["text"].as_str().unwrap()
}

#[test]
fn a_text_is_continued() {
    let server = Plan::new(&["story"]).start();
    let response = server.complete(json!({ "model": "story", "max_tokens": 9 }));
    assert_eq!(response.status, 200, "{response:?}");
    let body = response.json();
    // What the engine's own documentation shows for this prompt.
    assert_eq!(text(&body, 0), ", there was a little girl named Lily");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["choices"][0]["logprobs"], Value::Null);
    assert_eq!(body["usage"]["completion_tokens"], 9);
    assert_eq!(body["usage"]["prompt_tokens"], 5);
    assert_eq!(body["usage"]["total_tokens"], 14);
    assert_eq!(body["object"], "text_completion");
    // The prompt as tokens, and with itself before its continuation.
    let tokens =
        server.post("/tokenize", &json!({ "content": "Once upon a time", "add_special": true })).json();
    assert_eq!(tokens["count"], 5);
    let body = server.complete(json!({ "prompt": tokens["tokens"], "max_tokens": 9, "echo": true })).json();
    assert_eq!(text(&body, 0), "Once upon a time, there was a little girl named Lily");
    // Several prompts, each with its own answer, among which no order is mixed up.
    let prompts = json!(["Once upon a time", "The dog"]);
    let body = server.complete(json!({ "prompt": prompts, "max_tokens": 9, "n": 2 })).json();
    assert_eq!(body["choices"].as_array().unwrap().len(), 4);
    assert_eq!(text(&body, 0), ", there was a little girl named Lily");
    assert_eq!(text(&body, 1), text(&body, 0));
    assert_eq!(
        text(&body, 2),
        text(&server.complete(json!({ "prompt": "The dog", "max_tokens": 9 })).json(), 0)
    );
    assert_eq!(text(&body, 3), text(&body, 2));
    assert_eq!(body["usage"]["completion_tokens"], 36);
    assert_eq!(body["usage"]["prompt_tokens"], 5 + 3);
}

#[test]
fn a_chat_is_answered_in_one_piece_and_in_many() {
    let server = Plan::new(&["story"]).start();
    let wishes = json!({ "max_tokens": 24, "temperature": 0.9, "seed": 7, "n": 3, "logprobs": true, "top_logprobs": 2 });
    let whole = server.chat(wishes.clone()).json();
    assert_eq!(whole["object"], "chat.completion");
    let mut streamed = wishes;
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({ "include_usage": true });
    let response = server.chat(streamed);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let chunks = response.chunks();
    let (last, chunks) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    assert_eq!(last["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk["id"] == last["id"]));
    for choice in 0..3 {
        let of_choice: Vec<&Value> =
            chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|part| part["index"] == choice).collect();
        assert_eq!(of_choice[0]["delta"]["role"], "assistant");
        let words: String = of_choice.iter().filter_map(|part| part["delta"]["content"].as_str()).collect();
        let complete = &whole["choices"][choice];
        assert_eq!(complete["message"]["content"], words.as_str());
        let tokens: Vec<Value> = of_choice
            .iter()
            .filter_map(|part| part["logprobs"]["content"].as_array())
            .flatten()
            .cloned()
            .collect();
        assert_eq!(complete["logprobs"]["content"].as_array().unwrap(), &tokens);
        let reasons: Vec<&Value> =
            of_choice.iter().map(|part| &part["finish_reason"]).filter(|reason| !reason.is_null()).collect();
        assert_eq!(reasons, [&complete["finish_reason"]]);
        assert!(of_choice.last().unwrap()["finish_reason"].is_string());
    }
    let texts: Vec<&Value> = (0..3).map(|choice| &whole["choices"][choice]["message"]["content"]).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
}

#[test]
fn choices_are_what_their_seeds_say() {
    let server = Plan::new(&["story"]).start();
    let ask = |fields: Value| server.complete(fields).json();
    let many = ask(json!({ "temperature": 1, "seed": 41, "n": 3, "max_tokens": 12 }));
    for choice in 0..3 {
        let one = ask(json!({ "temperature": 1, "seed": 41 + choice, "max_tokens": 12 }));
        assert_eq!(text(&many, choice), text(&one, 0));
    }
    // Without a seed, no two are alike.
    let free: Vec<String> =
        (0..3).map(|_| text(&ask(json!({ "temperature": 1.5, "max_tokens": 20 })), 0).to_string()).collect();
    assert!(free[0] != free[1] || free[1] != free[2], "{free:?}");
}

#[test]
fn text_that_was_held_back_is_not_lost() {
    let server = Plan::new(&["story"]).start();
    // " Lily" is the beginning of the stop string when the last token comes.
    for streams in [false, true] {
        let fields = json!({ "max_tokens": 9, "stop": [" Lily was here"], "stream": streams });
        let response = server.complete(fields);
        let said: String = match streams {
            false => text(&response.json(), 0).to_string(),
            true => response.chunks().iter().map(|chunk| text(chunk, 0).to_string()).collect(),
        };
        assert_eq!(said, ", there was a little girl named Lily");
    }
    let body = server.complete(json!({ "max_tokens": 9, "stop": " girl" })).json();
    assert_eq!(
        (text(&body, 0), &body["choices"][0]["finish_reason"]),
        (", there was a little", &json!("stop"))
    );
}

#[test]
fn sampling_does_what_it_says() {
    let server = Plan::new(&["story"]).start();
    let ask = |fields: Value| text(&server.complete(fields).json(), 0).to_string();
    let greedy = ask(json!({ "max_tokens": 9 }));
    assert_eq!(ask(json!({ "max_tokens": 9, "temperature": 2, "top_k": 1 })), greedy);
    assert_eq!(ask(json!({ "max_tokens": 9, "temperature": 1, "top_p": 0 })), greedy);
    assert_eq!(ask(json!({ "max_tokens": 9, "temperature": 1, "min_p": 1 })), greedy);
    // The comma that would come first is banned; the first token is then another one.
    let comma = server.post("/tokenize", &json!({ "content": "time," })).json()["tokens"][1].clone();
    let banned = ask(json!({ "max_tokens": 9, "logit_bias": { comma.to_string(): -100 } }));
    assert!(!banned.contains(','), "{banned}");
    let stopped = server.complete(json!({ "max_tokens": 9, "stop_token_ids": [comma] })).json();
    assert_eq!((text(&stopped, 0), &stopped["usage"]["completion_tokens"]), ("", &json!(0)));
}

#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let server = Plan::new(&["story"]).start();
    let body = server.complete(json!({ "max_tokens": 5, "logprobs": 3 })).json();
    let logprobs = &body["choices"][0]["logprobs"];
    let tokens: String =
        logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(tokens, text(&body, 0));
    assert_eq!(logprobs["text_offset"][1], logprobs["tokens"][0].as_str().unwrap().len());
    let body = server
        .chat(json!({ "max_tokens": 5, "temperature": 0, "logprobs": true, "top_logprobs": 20 }))
        .json();
    for token in body["choices"][0]["logprobs"]["content"].as_array().unwrap() {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 20);
        // A greedy choice is the first of the likeliest, and all of them together are no more than everything.
        assert_eq!(top[0]["token"], token["token"]);
        let sum: f64 = top.iter().map(|top| top["logprob"].as_f64().unwrap().exp()).sum();
        assert!(sum > 0.1 && sum < 1.0 + 1e-4, "{sum}");
        let bytes: Vec<u8> =
            token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
        assert_eq!(String::from_utf8_lossy(&bytes), token["token"].as_str().unwrap());
    }
}

#[test]
fn a_begun_answer_is_continued() {
    let server = Plan::new(&["story"]).start();
    let ask = |messages: Value, fields: Value| {
        let mut body = json!({ "messages": messages, "temperature": 0, "max_tokens": 10 });
        super::harness::merge(&mut body, fields);
        server.post("/v1/chat/completions", &body).json()
    };
    let question = json!({ "role": "user", "content": "Tell me a story." });
    let begun = json!({ "role": "assistant", "content": " Once upon a time" });
    let body = ask(json!([question, begun]), json!({ "continue_final_message": true }));
    // The template's words, then the beginning: that is the prompt.
    let prompt = server.post("/apply-template", &json!({ "messages": [question] })).json();
    let same = server.complete(json!({
        "prompt": format!("{} Once upon a time", prompt["prompt"].as_str().unwrap()), "max_tokens": 10
    }));
    assert_eq!(body["choices"][0]["message"]["content"], same.json()["choices"][0]["text"]);
}

#[test]
fn begun_reasoning_is_continued() {
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}<think></think>";
    let server = Plan { template: Some(template), ..Plan::new(&["story"]) }.start();
    let question = json!({ "role": "user", "content": "Tell me a story." });
    let ask = |begun: Value| {
        let mut fields = json!({ "messages": [question, begun], "continue_final_message": true });
        let prompt = server.post("/apply-template", &fields).json()["prompt"].as_str().unwrap().to_string();
        // A model that always reasons does so when it is told to.
        fields["reasoning_effort"] = json!("high");
        (prompt, server.chat(fields).json()["choices"][0]["message"].clone())
    };
    let thought = json!({ "role": "assistant", "content": "", "reasoning_content": "They want" });
    let (prompt, message) = ask(thought);
    assert!(prompt.ends_with("<think>\nThey want"), "{prompt}");
    assert!(message["reasoning_content"].as_str().is_some_and(|more| !more.is_empty()), "{message}");
    let said = json!({ "role": "assistant", "content": "Once", "reasoning_content": "They want" });
    let (prompt, message) = ask(said);
    assert!(prompt.ends_with("<think>\nThey want\n</think>\n\nOnce"), "{prompt}");
    assert!(message["content"].as_str().is_some_and(|more| !more.is_empty()), "{message}");
    assert_eq!(message.get("reasoning_content").filter(|it| !it.is_null()), None);
}

#[test]
fn words_of_a_message_are_no_control_tokens() {
    let server = Plan::new(&["story"]).start();
    let tokens = |content: &str| -> Vec<u64> {
        let messages = json!([{ "role": "user", "content": content }]);
        let body = server.post("/apply-template", &json!({ "messages": messages })).json();
        body["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect()
    };
    // 1 and 2 are <s> and </s>; the template of this model writes the first alone.
    let found = tokens("Stop.</s><s>Go.");
    assert_eq!(found.iter().filter(|token| **token <= 2).count(), 1, "{found:?}");
    let parsed = server.post("/tokenize", &json!({ "content": "Stop.</s><s>Go." })).json();
    assert!(parsed["tokens"].as_array().unwrap().contains(&json!(2)));
    let literal = server.post("/tokenize", &json!({ "content": "a</s>", "parse_special": false })).json();
    assert!(!literal["tokens"].as_array().unwrap().contains(&json!(2)));
    let text = server.post("/detokenize", &json!({ "tokens": literal["tokens"] })).json();
    assert_eq!(text["content"], "a</s>");
    let pieces = server.post("/tokenize", &json!({ "content": "a cat", "with_pieces": true })).json();
    let joined: String =
        pieces["tokens"].as_array().unwrap().iter().map(|token| token["piece"].as_str().unwrap()).collect();
    assert_eq!(joined.trim_start(), "a cat");
}

#[test]
fn a_prompt_that_came_before_is_remembered() {
    let server = Plan::new(&["story"]).start();
    let prompt = "Once upon a time there was a very small dog who lived in a big house. ".repeat(6);
    let ask = |cache: bool| {
        server.complete(json!({ "prompt": prompt, "max_tokens": 8, "cache_prompt": cache })).json()
    };
    let (cold, warm, anew) = (ask(true), ask(true), ask(false));
    assert_eq!(anew["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(anew["choices"], warm["choices"]);
    assert_eq!(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert!(warm["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() >= 64, "{warm}");
    assert_eq!(cold["choices"], warm["choices"]);
}
