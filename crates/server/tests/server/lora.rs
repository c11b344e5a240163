//! Adapters by request, and by what is said for all.

use serde_json::{Value, json};

use super::harness::{Plan, Server};

fn adapted() -> Server {
    Plan::new(&["adapted"]).start()
}

/// The text that an answer has with these fields.
fn text(server: &Server, fields: Value) -> String {
    let mut body = json!({ "max_tokens": 12, "ignore_eos": true });
    super::harness::merge(&mut body, fields);
    let response = server.complete(body);
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["choices"][0]["text"].as_str().unwrap().to_string()
}

#[test]
fn requests_take_the_adapters_that_they_name() {
    let server = adapted();
    let list = json!([
        { "id": 0, "path": "adapter 0", "scale": 1.0 },
        { "id": 1, "path": "adapter 1", "scale": 1.0 },
    ]);
    assert_eq!(server.get("/lora-adapters").json(), list);
    assert_eq!(server.get("/lora-adapters?model=adapted").json(), list);
    let wishes = [
        json!({}),
        json!({ "lora": [] }),
        json!({ "lora": [{ "id": 0, "scale": 0.5 }] }),
        json!({ "lora": [{ "id": 1, "scale": 0.5 }] }),
        json!({ "lora": [{ "id": 1, "scale": 0.5 }, { "id": 0, "scale": -2 }] }),
    ];
    let alone: Vec<String> = wishes.iter().map(|wish| text(&server, wish.clone())).collect();
    for (index, answer) in alone.iter().enumerate() {
        assert!(alone[..index].iter().all(|other| other != answer), "{index} is like another");
    }
    // What is not said is as if the scales of the command line were.
    let said = json!({ "lora": [{ "id": 0, "scale": 1 }, { "id": 1, "scale": 1.0 }] });
    assert_eq!(text(&server, said), alone[0]);
    // All at once, with what others left in the cache.
    std::thread::scope(|scope| {
        let ask = |wish: &Value| text(&server, wish.clone());
        let asked: Vec<_> =
            wishes.iter().cycle().take(20).map(|wish| scope.spawn(move || ask(wish))).collect();
        for (index, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.join().unwrap(), alone[index % wishes.len()]);
        }
    });
}

#[test]
fn what_is_said_for_all_holds_until_it_is_said_anew() {
    let server = adapted();
    let before = text(&server, json!({}));
    let response = server.post("/lora-adapters", &json!([{ "id": 1, "scale": 0.25 }]));
    let list = json!([
        { "id": 0, "path": "adapter 0", "scale": 0.0 },
        { "id": 1, "path": "adapter 1", "scale": 0.25 },
    ]);
    assert_eq!((response.status, response.json()), (200, list.clone()));
    assert_eq!(server.get("/lora-adapters").json(), list);
    let after = text(&server, json!({}));
    assert_ne!(after, before);
    assert_eq!(after, text(&server, json!({ "lora": [{ "id": 1, "scale": 0.25 }] })));
    server.post("/lora-adapters", &json!([{ "id": 0, "scale": 1 }, { "id": 1, "scale": 1 }]));
    assert_eq!(text(&server, json!({})), before);
}

#[test]
fn what_there_is_not_is_refused() {
    let (server, plain) = (adapted(), Plan::new(&["mock"]).start());
    assert_eq!(plain.get("/lora-adapters").json(), json!([]));
    assert_eq!(plain.complete(json!({ "lora": [], "max_tokens": 1 })).status, 200);
    let refused = |server: &Server, lora: Value, expected: &str| {
        for response in [
            server.complete(json!({ "lora": lora, "max_tokens": 1 })),
            server.chat(json!({ "lora": lora, "max_tokens": 1 })),
            server.post("/lora-adapters", &lora),
        ] {
            assert_eq!(response.status, 400, "{response:?}");
            let message = response.json()["error"]["message"].as_str().unwrap().to_string();
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    };
    refused(&server, json!([{ "id": 2, "scale": 1 }]), "there is no adapter 2 here");
    refused(&plain, json!([{ "id": 0, "scale": 1 }]), "there is no adapter 0 here");
    refused(&server, json!([{ "id": 0, "scale": 1 }, { "id": 0, "scale": 2 }]), "adapter 0 is there twice");
    refused(&server, json!([{ "id": 0 }]), "scale");
    refused(&server, json!([{ "id": -1, "scale": 1 }]), "id");
    refused(&server, json!([{ "id": 0, "scale": 1e39 }]), "must be from");
    refused(&server, json!([{ "id": 0, "scale": 1, "path": "x" }]), "is not a parameter");
    refused(&server, json!([0]), "must be an object");
    refused(&server, json!({ "id": 0 }), "must be a list");
    // Nothing of it has changed what all take.
    assert_eq!(server.get("/lora-adapters").json()[0]["scale"], 1.0);
    assert_eq!(server.post("/lora-adapters?model=other", &json!([])).status, 404);
}
