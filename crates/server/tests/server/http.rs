//! An HTTP client of a few lines, which can also send what no client would.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// The head as it came, in lower case.
    pub head: String,
    pub body: String,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// The data of all events; keep-alives are passed over.
    pub fn events(&self) -> Vec<String> {
        let events = self.body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
        events.map(|event| event.strip_prefix("data: ").expect(event).to_string()).collect()
    }

    /// The JSON of all events before the last, which must be the mark of the end.
    pub fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{}", self.body);
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// Opens a connection.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A request's bytes, after whose response the connection ends.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text += "host: localhost\r\n";
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text + &format!("connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Sends bytes and reads the response to its end.
pub fn exchange(address: SocketAddr, bytes: &str) -> Response {
    let mut stream = connect(address);
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(bytes.as_bytes());
    read(&mut stream)
}

/// Reads a response to the end of the connection.
pub fn read(stream: &mut impl Read) -> Response {
    let mut bytes = Vec::new();
    // What came before a connection was cut is the response.
    let _ = stream.read_to_end(&mut bytes);
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(text: &str) -> Response {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(head);
    let head = head.to_ascii_lowercase();
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_string(),
    };
    Response { status, head, body }
}

/// Joins the chunks of a body, as far as they came.
fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 || after.len() < length + 2 {
            break;
        }
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
    body
}
