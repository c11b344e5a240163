//! A server that speaks as much of OpenAI's API as tests of clients need, with answers that follow from the request
//! alone, and faults on demand: delays, streams cut into pieces of any size, errors, connections that end too early,
//! and answers that depend on who else is there.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error with this status, in the API's form.
    Status(u16),
    /// A page instead of JSON.
    Garbage,
    /// A stream that ends after this many pieces, without saying that it does.
    CutOff(usize),
    /// An error inside the stream.
    InStream,
}

/// How a server behaves.
pub struct Behaviour {
    /// How long it takes to the first piece of an answer.
    pub first: Duration,
    /// How long it takes from piece to piece.
    pub between: Duration,
    /// Bytes of a stream that are sent at a time, whatever they are parts of.
    pub bytes_at_a_time: usize,
    /// What goes wrong with the request of a number, counted from 0 as they come.
    pub fault: fn(usize) -> Option<Fault>,
    /// Fields that are refused.
    pub refuses: &'static [&'static str],
    /// Whether `stop` conditions end an answer after three tokens unless the request says `ignore_eos`.
    pub ends_early: bool,
    /// More than this many answers at a time are refused with status 429.
    pub room: usize,
    /// Whether every third answer changes its text, and every second its log-probabilities, when it is not alone.
    pub cheats: bool,
    /// Called between the first and the second piece of a stream.
    pub after_first: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            first: Duration::ZERO,
            between: Duration::ZERO,
            bytes_at_a_time: usize::MAX,
            fault: |_| None,
            refuses: &[],
            ends_early: false,
            room: usize::MAX,
            cheats: false,
            after_first: None,
        }
    }
}

/// A request for an answer, as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// When.
    pub at: Instant,
    /// Where to.
    pub path: String,
    /// Its body.
    pub body: Value,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Vec<Received>>,
    prompts: Mutex<Vec<String>>,
    active: AtomicUsize,
    most_active: AtomicUsize,
    left: AtomicUsize,
}

/// A server on a port of its own, until the process ends.
pub struct MockServer {
    address: String,
    shared: Arc<Shared>,
}

impl MockServer {
    /// Starts one.
    pub fn start(behaviour: Behaviour) -> MockServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("a bound port"));
        let shared = Arc::new(Shared::default());
        let (behaviour, theirs) = (Arc::new(behaviour), Arc::clone(&shared));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behaviour, shared) = (Arc::clone(&behaviour), Arc::clone(&theirs));
                std::thread::spawn(move || {
                    if answer(stream, &behaviour, &shared).is_err() {
                        shared.left.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        MockServer { address, shared }
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Every request for an answer so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The most answers that were being given at a time.
    pub fn most_active(&self) -> usize {
        self.shared.most_active.load(Ordering::SeqCst)
    }

    /// Clients that left before their answer was whole.
    pub fn left(&self) -> usize {
        self.shared.left.load(Ordering::SeqCst)
    }
}

/// Counts an answer for as long as it is being given.
struct Active<'a>(&'a Shared);

impl<'a> Active<'a> {
    fn new(shared: &'a Shared) -> Active<'a> {
        let now = shared.active.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_active.fetch_max(now, Ordering::SeqCst);
        Active(shared)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers the one request of a connection. An error means that the client has left.
fn answer(mut stream: TcpStream, behaviour: &Behaviour, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_string();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        if header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    if path == "/v1/models" {
        let models = json!({ "data": [{ "id": "mock-model" }, { "id": "another" }] });
        return whole(&mut stream, 200, &models.to_string());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return whole(&mut stream, 400, "{\"error\": {\"message\": \"no JSON\"}}");
    };
    let number = {
        let mut received = shared.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.push(Received { at: Instant::now(), path: path.clone(), body: body.clone() });
        received.len() - 1
    };
    if let Some(field) = behaviour.refuses.iter().find(|field| body.get(**field).is_some()) {
        let error = json!({ "error": { "message": format!("{field} is not supported") } });
        return whole(&mut stream, 400, &error.to_string());
    }
    let active = Active::new(shared);
    let others = || shared.active.load(Ordering::SeqCst) - 1;
    if others() >= behaviour.room {
        drop(active);
        return whole(&mut stream, 429, "{\"error\": {\"message\": \"the queue is full\"}}");
    }
    let fault = (behaviour.fault)(number);
    match fault {
        Some(Fault::Status(code)) => {
            return whole(&mut stream, code, "{\"error\": {\"message\": \"as asked\"}}");
        }
        Some(Fault::Garbage) => return whole(&mut stream, 200, "<html>Hello</html>"),
        _ => (),
    }
    let mut written = Written::new(&body, &path, behaviour, shared);
    std::thread::sleep(behaviour.first);
    if body["stream"] == json!(true) {
        return streamed(&mut stream, &written, &body, behaviour, fault);
    }
    std::thread::sleep(behaviour.between * written.tokens.len() as u32);
    if behaviour.cheats && others() > 0 {
        written.cheat(number);
    }
    whole(&mut stream, 200, &written.whole().to_string())
}

/// An answer, before it is sent.
struct Written {
    is_chat: bool,
    has_log_probabilities: bool,
    tokens: Vec<String>,
    log_probabilities: Vec<f64>,
    finish: &'static str,
    usage: Value,
}

impl Written {
    fn new(body: &Value, path: &str, behaviour: &Behaviour, shared: &Shared) -> Written {
        let prompt = match body["prompt"].as_str() {
            Some(prompt) => prompt.to_string(),
            None => body["messages"].to_string(),
        };
        let asked = body["max_tokens"].as_u64().unwrap_or(16) as usize;
        let ends = behaviour.ends_early && body["ignore_eos"] != json!(true) && asked > 3;
        let count = if ends { 3 } else { asked.min(10_000) };
        let mut hasher = DefaultHasher::new();
        (&prompt, body["seed"].as_u64(), body["temperature"].to_string()).hash(&mut hasher);
        let base = hasher.finish();
        // Characters of one to four bytes.
        let word =
            |n: usize| format!("{}{:x} ", ["a", "ö", "→", "😀"][n % 4], base.rotate_left(n as u32) & 0xfff);
        let mut tokens: Vec<String> = (0..count).map(word).collect();
        let is_regex = body["response_format"]["type"] == json!("regex");
        if is_regex {
            tokens = vec![format!("{:04}-{:02}-{:02}", base % 10_000, base % 12 + 1, base % 28 + 1)];
        } else if body.get("response_format").is_some() {
            tokens = vec![json!({ "name": format!("{base:x}") }).to_string()];
        }
        let mut prompts = shared.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = match body["cache_prompt"] == json!(false) {
            true => 0,
            false => prompts.iter().map(|before| common_words(before, &prompt)).max().unwrap_or(0),
        };
        prompts.push(prompt.clone());
        // A word is a token; there are three more at the beginning.
        let usage = json!({
            "prompt_tokens": prompt.split_whitespace().count() + 3,
            "completion_tokens": tokens.len(),
            "prompt_tokens_details": { "cached_tokens": cached },
        });
        Written {
            is_chat: path.ends_with("/chat/completions"),
            has_log_probabilities: body.get("logprobs").is_some(),
            log_probabilities: (0..tokens.len())
                .map(|n| -(base.rotate_left(n as u32) as f64 / 1e18))
                .collect(),
            tokens,
            finish: if ends { "stop" } else { "length" },
            usage,
        }
    }

    /// What an answer says that depends on who else is there.
    fn cheat(&mut self, number: usize) {
        if number.is_multiple_of(3) {
            self.tokens.push("!".to_string());
        }
        if number.is_multiple_of(2) {
            self.log_probabilities.iter_mut().for_each(|value| *value *= 1.0 + 1e-12);
        }
    }

    fn whole(&self) -> Value {
        let text = self.tokens.concat();
        let log_probabilities = match self.has_log_probabilities {
            true => json!({ "content": self.log_probabilities }),
            false => Value::Null,
        };
        let mut choice = match self.is_chat {
            true => json!({ "message": { "role": "assistant", "content": text } }),
            false => json!({ "text": text }),
        };
        choice["finish_reason"] = json!(self.finish);
        choice["logprobs"] = log_probabilities;
        json!({ "choices": [choice], "usage": self.usage })
    }

    fn piece(&self, text: &str, finish: Option<&str>) -> Value {
        match self.is_chat {
            true => json!({ "choices": [{ "delta": { "content": text }, "finish_reason": finish }] }),
            false => json!({ "choices": [{ "text": text, "finish_reason": finish }] }),
        }
    }
}

fn common_words(a: &str, b: &str) -> usize {
    a.split_whitespace().zip(b.split_whitespace()).take_while(|(a, b)| a == b).count()
}

/// A whole response.
fn whole(stream: &mut TcpStream, code: u16, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
    write!(
        stream,
        "HTTP/1.1 {code} x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// A stream of events, in chunks that know nothing of where events, lines and characters end.
fn streamed(
    stream: &mut TcpStream,
    written: &Written,
    body: &Value,
    behaviour: &Behaviour,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n"
    )?;
    let mut send = |data: &str| -> std::io::Result<()> {
        let event = format!("data: {data}\n\n");
        for bytes in event.as_bytes().chunks(behaviour.bytes_at_a_time.min(event.len())) {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            stream.write_all(&chunk)?;
        }
        Ok(())
    };
    for (number, token) in written.tokens.iter().enumerate() {
        if number == 1
            && let Some(after_first) = &behaviour.after_first
        {
            after_first();
        }
        if number > 0 {
            std::thread::sleep(behaviour.between);
        }
        match fault {
            Some(Fault::CutOff(after)) if number == after => return Ok(()),
            Some(Fault::InStream) if number == 1 => {
                send("{\"error\": {\"message\": \"as asked\"}}")?;
                return Ok(());
            }
            _ => send(&written.piece(token, None).to_string())?,
        }
    }
    send(&written.piece("", Some(written.finish)).to_string())?;
    if body["stream_options"]["include_usage"] == json!(true) {
        send(&json!({ "choices": [], "usage": written.usage }).to_string())?;
    }
    send("[DONE]")?;
    stream.write_all(b"0\r\n\r\n")
}
