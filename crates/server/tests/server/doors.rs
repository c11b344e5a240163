//! Who may come in: keys, web pages, encrypted connections.

use std::io::{Read, Write};
use std::sync::Arc;

use gleed_server::{Keys, Tls};
use serde_json::json;

use super::harness::{Plan, Server};
use super::http::{Response, exchange, read, request};

fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let body = if method == "POST" { "{\"prompt\": [5], \"max_tokens\": 1}" } else { "" };
    exchange(server.address, &request(method, path, headers, body))
}

#[test]
fn a_key_is_needed_where_there_is_one() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.keys = Keys::new(["first".to_string(), "second".to_string()]);
    let server = plan.start();
    for path in ["/v1/models", "/metrics", "/status.json", "/v1/nothing"] {
        let response = ask(&server, "GET", path, &[]);
        assert_eq!(response.status, 401, "{path}");
        assert_eq!(response.json()["error"]["code"], "invalid_api_key");
        assert_eq!(response.header("www-authenticate"), Some("bearer"));
    }
    assert_eq!(ask(&server, "POST", "/v1/completions", &[("authorization", "Bearer third")]).status, 401);
    assert_eq!(ask(&server, "GET", "/health", &[]).status, 200);
    for header in
        [("authorization", "Bearer first"), ("authorization", "Bearer second"), ("x-api-key", "first")]
    {
        assert_eq!(ask(&server, "GET", "/v1/models", &[header]).status, 200);
        assert_eq!(ask(&server, "POST", "/v1/completions", &[header]).status, 200);
    }
    // No key is in the log.
    assert!(server.lines().iter().all(|line| !line.contains("first") && !line.contains("third")));
}

#[test]
fn web_pages_ask_only_where_they_may() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.cors = vec!["https://good.example".to_string()];
    let server = plan.start();
    let post = |headers: &[(&str, &str)]| ask(&server, "POST", "/v1/completions", headers);
    let good = post(&[("origin", "https://good.example")]);
    assert_eq!(
        (good.status, good.header("access-control-allow-origin")),
        (200, Some("https://good.example"))
    );
    let bad = post(&[("origin", "https://bad.example")]);
    assert_eq!((bad.status, bad.header("access-control-allow-origin")), (403, None));
    assert_eq!(bad.json()["error"]["code"], "forbidden_origin");
    // The server's own page.
    assert_eq!(post(&[("host", "localhost:5"), ("origin", "http://localhost:5")]).status, 200);
    // A page that has its name point to this machine.
    assert_eq!(post(&[("host", "evil.example"), ("origin", "http://evil.example")]).status, 403);
    assert_eq!(ask(&server, "GET", "/v1/models", &[("host", "evil.example")]).status, 403);
    let asked = [
        ("origin", "https://good.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization, x-stainless-os"),
    ];
    let response = ask(&server, "OPTIONS", "/v1/chat/completions", &asked);
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-headers"), Some("authorization, x-stainless-os"));
    let asked = [("origin", "https://bad.example"), ("access-control-request-method", "POST")];
    assert_eq!(ask(&server, "OPTIONS", "/v1/chat/completions", &asked).status, 403);
}

#[test]
fn the_log_tells_what_happened_and_not_what_was_said() {
    let mut plan = Plan::new(&["mock"]);
    let server = plan.start();
    let body =
        json!({ "messages": [{ "role": "user", "content": "my secret\nPOST /fake 200" }], "max_tokens": 2 });
    assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
    super::harness::until("it is told", || !server.lines().is_empty());
    let line = server.lines().remove(0);
    assert!(line.starts_with("POST /v1/chat/completions 200 "), "{line}");
    assert!(
        line.contains("model=mock") && line.contains("generated=2") && line.contains("ended=length"),
        "{line}"
    );
    assert!(!line.contains("secret"), "{line}");
    plan = Plan::new(&["mock"]);
    plan.settings.logs_prompts = true;
    let server = plan.start();
    server.post("/v1/chat/completions", &body);
    super::harness::until("it is told", || !server.lines().is_empty());
    let line = server.lines().remove(0);
    assert!(line.contains("my secret\\nPOST") && !line.contains('\n'), "{line}");
}

#[test]
fn connections_are_encrypted() {
    // Made for this test alone: no key lies about.
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["certificate", "key"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let mut plan = Plan::new(&["mock"]);
    plan.settings.tls = Some(Tls { certificate, key });
    let server = plan.start();
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, super::http::connect(server.address));
    stream.write_all(request("GET", "/health", &[], "").as_bytes()).unwrap();
    let response = read(&mut stream);
    assert_eq!((response.status, response.body.as_str()), (200, "{\"status\":\"ok\"}"));
    // One that speaks plainly gets nothing that a browser would read.
    let mut plain = super::http::connect(server.address);
    plain.write_all(request("GET", "/health", &[], "").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP"));
}

#[test]
fn a_wrong_certificate_is_told() {
    let mut plan = Plan::new(&["mock"]);
    plan.settings.tls = Some(Tls { certificate: "/nowhere.pem".into(), key: "/nowhere.key".into() });
    let problem = plan.start().join().unwrap_err().to_string();
    assert!(problem.starts_with("/nowhere.pem: "), "{problem}");
}
