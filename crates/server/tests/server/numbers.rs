//! What is told to those who watch: metrics, the status page, the description of the API.

use serde_json::{Value, json};

use super::harness::{Plan, until};

#[test]
fn metrics_count_what_happens() {
    let server = Plan::new(&["mock"]).start();
    let ask = |fields: Value| server.complete(fields).status;
    assert_eq!(ask(json!({ "prompt": vec![5; 100], "max_tokens": 7, "ignore_eos": true })), 200);
    assert_eq!(ask(json!({ "prompt": vec![5; 100], "max_tokens": 7, "ignore_eos": true, "n": 2 })), 200);
    assert_eq!(ask(json!({ "nonsense": 1 })), 400);
    let count = |name: &str| server.metric(name).unwrap_or_else(|| panic!("{name}"));
    let label = "{model_name=\"mock\"";
    until("it is told", || {
        server.metric("gleed_requests_total{route=\"/v1/completions\",status=\"200\"}") == Some(2.0)
    });
    assert_eq!(count("gleed_requests_total{route=\"/v1/completions\",status=\"400\"}"), 1.0);
    // The engine tells what it did when its step is over, a moment after the answer.
    until("the engine is idle", || {
        let idle = [("waiting", 0.0), ("running", 0.0)];
        idle.iter().all(|(what, number)| count(&format!("vllm:num_requests_{what}{label}")) == *number)
    });
    assert_eq!(count(&format!("vllm:generation_tokens_total{label}")), 21.0);
    assert_eq!(count(&format!("vllm:prompt_tokens_total{label}")), 300.0);
    assert!(count(&format!("vllm:prefix_cache_hits_total{label}")) >= 64.0);
    assert_eq!(count(&format!("vllm:prefix_cache_queries_total{label}")), 300.0);
    assert_eq!(count(&format!("vllm:time_to_first_token_seconds_count{label}")), 3.0);
    assert_eq!(count(&format!("vllm:inter_token_latency_seconds_count{label}")), 18.0);
    assert_eq!(count(&format!("vllm:e2e_request_latency_seconds_count{label}")), 3.0);
    assert_eq!(count(&format!("vllm:request_generation_tokens_sum{label}")), 21.0);
    assert_eq!(count(&format!("vllm:request_success_total{label}")), 3.0);
    assert_eq!(count(&format!("vllm:num_requests_running{label}")), 0.0);
    assert_eq!(count(&format!("vllm:num_requests_waiting{label}")), 0.0);
    assert!(count(&format!("gleed_pages_total{label}")) > 0.0);
    assert_eq!(count(&format!("vllm:kv_cache_usage_perc{label}")), 0.0);
    assert!(count(&format!("gleed_steps_total{label}")) > 7.0);
    let text = server.get("/metrics");
    assert!(text.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(text.body.ends_with("# EOF\n"));
}

#[test]
fn the_status_page_sees_the_last_seconds() {
    let server = Plan::new(&["mock"]).start();
    assert_eq!(server.complete(json!({ "max_tokens": 7, "ignore_eos": true })).status, 200);
    let status = || server.get("/status.json").json();
    let samples = || status()["samples"].as_array().unwrap().clone();
    // A sample may be taken while they come.
    let sum = |what: &str| samples().iter().map(|sample| sample[what].as_u64().unwrap()).sum::<u64>();
    until("the tokens are seen", || sum("generated_tokens") == 7);
    until("the request is seen", || sum("requests") >= 1);
    let model = &status()["models"][0];
    assert_eq!(
        (&model["id"], &model["loaded"], &model["generated_tokens"]),
        (&json!("mock"), &json!(true), &json!(7))
    );
    let last = samples().last().unwrap()["time"].as_u64().unwrap();
    let later = server.get(&format!("/status.json?since={last}")).json();
    assert!(
        later["samples"].as_array().unwrap().iter().all(|sample| sample["time"].as_u64().unwrap() > last)
    );
    assert_eq!(server.get("/status.json?since=yesterday").status, 400);
}
