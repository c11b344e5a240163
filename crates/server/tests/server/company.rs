//! Many at once: queues, those who leave, those who are slow, and engines that die.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{CONTEXT, Plan, Server, until};
use super::http::{connect, exchange, read, request};

/// Begins a long answer on a connection of its own and reads its head and first event.
fn begin(server: &Server) -> TcpStream {
    let body = json!({ "prompt": [5, 6, 7], "max_tokens": CONTEXT, "stream": true, "ignore_eos": true });
    let mut stream = connect(server.address);
    stream.write_all(request("POST", "/v1/completions", &[], &body.to_string()).as_bytes()).unwrap();
    let mut seen = String::new();
    while !seen.contains("data: ") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{seen}");
        seen += &String::from_utf8_lossy(&bytes[..count]);
    }
    stream
}

fn running(server: &Server) -> f64 {
    server.metric("vllm:num_requests_running{").unwrap()
}

#[test]
fn a_full_queue_refuses() {
    let mut plan = Plan::new(&["mock"]);
    plan.batch.most_running = 1;
    plan.batch.most_waiting = 1;
    let server = plan.start();
    server.wires.delay.store(20, Ordering::SeqCst);
    let runs = begin(&server);
    let body = json!({ "prompt": [5], "max_tokens": 1 }).to_string();
    let mut waits = connect(server.address);
    waits.write_all(request("POST", "/v1/completions", &[], &body).as_bytes()).unwrap();
    until("one waits", || server.metric("vllm:num_requests_waiting{") == Some(1.0));
    let response = server.post("/v1/completions", &json!({ "prompt": [5], "max_tokens": 1 }));
    assert_eq!(response.status, 429, "{response:?}");
    assert_eq!(response.json()["error"]["type"], "rate_limit_error");
    assert_eq!(response.header("retry-after"), Some("1"));
    // More choices than there is room for are refused as a whole, and leave nothing behind.
    assert_eq!(server.post("/v1/completions", &json!({ "prompt": [5], "n": 3 })).status, 429);
    drop(runs);
    assert_eq!(read(&mut waits).status, 200);
    until("nothing runs", || running(&server) == 0.0);
}

#[test]
fn an_answer_ends_when_its_reader_leaves() {
    let server = Plan::new(&["mock"]).start();
    server.wires.delay.store(5, Ordering::SeqCst);
    let streams: Vec<TcpStream> = (0..3).map(|_| begin(&server)).collect();
    // The engine tells what it does when a step is over, a moment after the first words.
    until("all run", || running(&server) == 3.0);
    drop(streams);
    until("nothing runs", || running(&server) == 0.0);
    let generated = server.metric("vllm:generation_tokens_total{").unwrap();
    assert!(generated < 3.0 * CONTEXT as f64 / 2.0, "{generated} tokens were generated for nobody");
    // One who waits for a whole answer can leave too.
    let mut stream = connect(server.address);
    let body = json!({ "prompt": [5], "max_tokens": CONTEXT, "ignore_eos": true }).to_string();
    stream.write_all(request("POST", "/v1/completions", &[], &body).as_bytes()).unwrap();
    until("it runs", || running(&server) == 1.0);
    drop(stream);
    until("it ended", || running(&server) == 0.0);
    until("it is told", || server.lines().iter().any(|line| line.contains("POST /v1/completions gone ")));
    // What they held is free again, but for what is kept for others.
    let (used, cached) =
        (server.metric("gleed_pages_used{").unwrap(), server.metric("gleed_pages_cached{").unwrap());
    assert_eq!(used, cached);
}

#[test]
fn half_sent_requests_and_slow_readers_hold_up_nobody() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.limits.head_time = Duration::from_millis(500);
    plan.settings.limits.body_time = Duration::from_millis(500);
    let server = plan.start();
    let mut half: Vec<TcpStream> = (0..20).map(|_| connect(server.address)).collect();
    for (number, stream) in half.iter_mut().enumerate() {
        let text = request("POST", "/v1/completions", &[], "{\"prompt\": [5]}");
        // Some end inside the head, some inside the body.
        let length = if number % 2 == 0 { 20 } else { text.len() - 3 };
        stream.write_all(&text.as_bytes()[..length]).unwrap();
    }
    // These read nothing of what they asked for.
    let slow: Vec<TcpStream> = (0..2)
        .map(|_| {
            let body = json!({ "prompt": [5], "max_tokens": CONTEXT, "stream": true, "logprobs": 20 });
            let mut stream = connect(server.address);
            stream.write_all(request("POST", "/v1/completions", &[], &body.to_string()).as_bytes()).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    assert_eq!(server.post("/v1/completions", &json!({ "prompt": [5], "max_tokens": 2 })).status, 200);
    assert!(start.elapsed() < Duration::from_secs(20));
    // The half-sent ones are given up: closed where nothing can be said, told where it can.
    for (number, stream) in half.iter_mut().enumerate() {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{number}: {text}");
        assert!(number % 2 == 0 || text.starts_with("HTTP/1.1 408"), "{number}: {text}");
    }
    drop(slow);
    until("nothing runs", || running(&server) == 0.0);
}

#[test]
fn a_model_that_dies_is_loaded_again() {
    let server = Plan::new(&["mock"]).start();
    let ask = |streams: bool| {
        server.post("/v1/completions", &json!({ "prompt": [5], "max_tokens": 2, "stream": streams }))
    };
    assert_eq!(ask(false).status, 200);
    server.wires.panics.store(true, Ordering::SeqCst);
    let response = ask(false);
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.header("retry-after").is_some());
    assert_eq!(ask(false).status, 200);
    assert_eq!(server.wires.loads.load(Ordering::SeqCst), 2);
    // In a stream, it is an event.
    server.wires.panics.store(true, Ordering::SeqCst);
    let response = ask(true);
    assert_eq!(response.status, 200);
    let events = response.events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "service_unavailable_error");
    assert_eq!(ask(true).status, 200);
    assert_eq!(server.wires.loads.load(Ordering::SeqCst), 3);
    // One that cannot be loaded is told without the reason, which is the operator's.
    server.wires.panics.store(true, Ordering::SeqCst);
    assert_eq!(ask(false).status, 503);
    server.wires.refuses.store(true, Ordering::SeqCst);
    let response = ask(false);
    assert!(response.status == 503 && !response.body.contains("secret"), "{response:?}");
    assert!(server.lines().iter().any(|line| line.contains("/secret/path: told to fail")));
}

#[test]
fn an_answer_ends_when_its_time_is_over() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.deadline = Some(Duration::from_secs(60));
    let server = plan.start();
    server.wires.delay.store(10, Ordering::SeqCst);
    let body = json!({ "prompt": [5], "max_tokens": CONTEXT, "ignore_eos": true, "timeout_seconds": 0.3 });
    let body = server.post("/v1/completions", &body).json();
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    let generated = body["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(generated > 0 && generated < CONTEXT as u64 / 2, "{generated}");
}

#[test]
fn what_runs_is_finished_and_the_rest_refused() {
    let mut server = Plan::new(&["mock"]).start();
    server.wires.delay.store(5, Ordering::SeqCst);
    let body = json!({ "prompt": [5], "max_tokens": 100, "ignore_eos": true, "stream": true });
    let mut stream = connect(server.address);
    stream.write_all(request("POST", "/v1/completions", &[], &body.to_string()).as_bytes()).unwrap();
    until("it runs", || running(&server) == 1.0);
    server.stop();
    until("it is closing", || server.get("/health").status == 503);
    let response = server.post("/v1/completions", &json!({ "prompt": [5] }));
    assert_eq!(response.status, 503);
    let chunks = read(&mut stream).chunks();
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
    assert!(server.join().is_ok());
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn what_does_not_end_in_time_is_cut_off() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.grace = Duration::from_millis(200);
    let mut server = plan.start();
    server.wires.delay.store(30, Ordering::SeqCst);
    let mut stream = begin(&server);
    let start = Instant::now();
    server.stop();
    assert!(server.join().is_ok());
    assert!(start.elapsed() < Duration::from_secs(10));
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.contains("[DONE]"));
    assert!(
        server.lines().iter().any(|line| line.contains("1 requests are cut off")),
        "{:?}",
        server.lines()
    );
}

#[test]
fn models_are_loaded_when_asked_for_and_unloaded_when_not() {
    let mut plan = Plan::new(&["a", "b"]);
    plan.settings.models[1].aliases = vec!["gpt".to_string()];
    plan.settings.idle = Some(Duration::from_millis(300));
    let server = plan.start();
    let loads = || server.wires.loads.load(Ordering::SeqCst);
    assert_eq!(loads(), 0);
    let ids = |body: Value| -> Vec<(String, bool)> {
        let data = body["data"].as_array().unwrap().clone();
        data.iter()
            .map(|model| (model["id"].as_str().unwrap().to_string(), model["loaded"].as_bool().unwrap()))
            .collect()
    };
    let all = |a: bool, b: bool| vec![("a".to_string(), a), ("b".to_string(), b), ("gpt".to_string(), b)];
    assert_eq!(ids(server.get("/v1/models").json()), all(false, false));
    // Requests at the same time wait for the same load.
    std::thread::scope(|scope| {
        for name in ["b", "gpt", "b"] {
            let server = &server;
            scope.spawn(move || {
                let body =
                    server.post("/v1/completions", &json!({ "model": name, "prompt": [5], "max_tokens": 1 }));
                assert_eq!((body.status, &body.json()["model"]), (200, &json!("b")));
            });
        }
    });
    assert_eq!(loads(), 1);
    assert_eq!(ids(server.get("/v1/models").json()), all(false, true));
    assert_eq!(server.get("/v1/models/gpt").json()["root"], "b");
    let response = server.post("/v1/completions", &json!({ "prompt": [5] }));
    assert_eq!((response.status, &response.json()["error"]["param"]), (400, &json!("model")));
    until("it is unloaded", || ids(server.get("/v1/models").json()) == all(false, false));
    assert_eq!(exchange(server.address, &request("GET", "/v1/models/b", &[], "")).status, 200);
}
