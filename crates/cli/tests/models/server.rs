//! A small HTTP server whose every answer the test decides, and which remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    cut: Option<usize>,
}

impl Reply {
    pub fn new(status: u16, body: &[u8]) -> Self {
        Self { status, headers: Vec::new(), body: body.to_vec(), cut: None }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Closes the connection after `bytes` bytes of the body, though its full length was announced.
    pub fn cut(self, bytes: usize) -> Self {
        Self { cut: Some(bytes), ..self }
    }

    /// The file as an honest server gives it, ranges and `If-Range` included.
    pub fn file(request: &Request, body: &[u8], tag: &str) -> Self {
        let quoted = format!("\"{tag}\"");
        let start = request.header("range").and_then(|range| {
            let wanted = range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok()?;
            request.header("if-range").is_none_or(|tag| tag == quoted).then_some(wanted)
        });
        let reply = match start {
            None => Self::new(200, body),
            Some(start) if start >= body.len() => {
                Self::new(416, b"").header("content-range", format!("bytes */{}", body.len()))
            }
            Some(start) => Self::new(206, &body[start..])
                .header("content-range", format!("bytes {start}-{}/{}", body.len() - 1, body.len())),
        };
        reply.header("etag", quoted)
    }
}

pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    listings: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers every request for a file by `answer`, which also gets how many of them came before. It knows
    /// nothing about repositories.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + 'static) -> Self {
        Self::with_listings(|_, _| Reply::new(404, b""), answer)
    }

    /// The same, and answers every request for what it knows about a repository by `listing`.
    pub fn with_listings(
        listing: impl Fn(&Request, usize) -> Reply + Send + 'static,
        answer: impl Fn(&Request, usize) -> Reply + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let listings = Arc::new(Mutex::new(Vec::new()));
        let (all_requests, all_listings) = (Arc::clone(&requests), Arc::clone(&listings));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                let is_listing = request.path.starts_with("/api/");
                let before = {
                    let remembered = if is_listing { &all_listings } else { &all_requests };
                    let mut remembered = remembered.lock().unwrap();
                    remembered.push(request.clone());
                    remembered.len() - 1
                };
                let reply = if is_listing { listing(&request, before) } else { answer(&request, before) };
                // The client may hang up as soon as it has seen enough.
                let _ = write(stream, &request, reply);
            }
        });
        Self { address, requests, listings }
    }

    /// Requests for what it knows about repositories.
    pub fn listings(&self) -> Vec<Request> {
        self.listings.lock().unwrap().clone()
    }

    /// Requests for files.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Method and `Range` of every request for a file.
    pub fn summary(&self) -> Vec<String> {
        let line =
            |request: &Request| format!("{} {}", request.method, request.header("range").unwrap_or("all"));
        self.requests().iter().map(line).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { method, path, headers })
}

fn write(mut stream: TcpStream, request: &Request, reply: Reply) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {} Answer\r\nconnection: close\r\n", reply.status)?;
    write!(stream, "content-length: {}\r\n", reply.body.len())?;
    for (name, value) in &reply.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    if request.method != "HEAD" {
        stream.write_all(&reply.body[..reply.cut.unwrap_or(reply.body.len())])?;
    }
    stream.flush()
}
