//! Servers for tests: one with the story model, others with an executor that needs no model and can be slow, fail or
//! panic when it is told to.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gleed_engine::{BatchSettings, Engine, EngineHandle};
use gleed_gguf::Gguf;
use gleed_model::chain::Chain;
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::{Batch, Executor, Program, StepError};
use gleed_server::{Error, Limits, Loader, Log, Offer, Parts, Settings, serve};
use gleed_testing::Mock;
use gleed_tokenizer::{ChatTemplate, Tokenizer};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::http::{Response, exchange, request};

/// The story model's file.
pub fn story() -> Arc<Gguf> {
    static FILE: LazyLock<Arc<Gguf>> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories15M-q8_0.gguf");
        Arc::new(Gguf::open(&path).unwrap())
    });
    FILE.clone()
}

/// What a mock is told while it runs, and what it has done.
#[derive(Debug, Default)]
pub struct Wires {
    /// Milliseconds that a step takes besides.
    pub delay: AtomicU64,
    /// Panics in the next step.
    pub panics: AtomicBool,
    /// Steps that were computed.
    pub steps: AtomicUsize,
    /// How often a model was loaded.
    pub loads: AtomicUsize,
    /// Whether loading fails.
    pub refuses: AtomicBool,
}

/// An executor without a model that does as its wires say.
struct Wired {
    mock: Mock,
    wires: Arc<Wires>,
}

impl Executor for Wired {
    fn program(&self) -> &Program {
        self.mock.program()
    }

    fn max_rows(&self) -> usize {
        self.mock.max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.mock.page_groups()
    }

    fn slot_count(&self) -> usize {
        self.mock.slot_count()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        assert!(!self.wires.panics.swap(false, Ordering::SeqCst), "told to panic");
        std::thread::sleep(Duration::from_millis(self.wires.delay.load(Ordering::SeqCst)));
        self.wires.steps.fetch_add(1, Ordering::SeqCst);
        self.mock.step(batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.mock.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.mock.copy_page(group, from, to);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        None
    }
}

/// Loads `story`, and any other name as a mock with the story's vocabulary; `adapted` has two adapters.
struct Models {
    wires: Arc<Wires>,
    batch: BatchSettings,
    template: Option<&'static str>,
}

/// Positions of a mock's context.
pub const CONTEXT: usize = 512;

impl Loader for Models {
    fn load(&self, name: &str) -> Result<Parts, Box<dyn std::error::Error + Send + Sync>> {
        if self.wires.refuses.load(Ordering::SeqCst) {
            return Err("/secret/path: told to fail".into());
        }
        self.wires.loads.fetch_add(1, Ordering::SeqCst);
        let tokenizer = Tokenizer::from_metadata(story().metadata())?;
        let template = match self.template {
            Some(source) => ChatTemplate::from_source(source)?,
            None => ChatTemplate::fallback(&tokenizer)?,
        };
        let executor: Box<dyn Executor> = match name {
            "story" => {
                let pages = 4 * self.batch.most_running;
                let options = gleed_cpu::Options { threads: 1, max_rows: 64, pages, ..Default::default() };
                Box::new(gleed_cpu::Cpu::open(&story(), options)?)
            }
            name => {
                let mock = Mock::new(tokenizer.vocab_size(), CONTEXT, 64, 8 * self.batch.most_running);
                let mock = if name == "adapted" { mock.with_adapters(2) } else { mock };
                Box::new(Wired { mock, wires: self.wires.clone() })
            }
        };
        let engine = EngineHandle::start(Engine::new(executor), self.batch.clone());
        let about = Default::default();
        Ok(Parts { tokenizer, template, tool_template: None, engine, context: None, about })
    }
}

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    pub wires: Arc<Wires>,
    log: Arc<Mutex<Vec<String>>>,
    stop: UnboundedSender<()>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// How a server is made.
pub struct Plan {
    pub settings: Settings,
    pub batch: BatchSettings,
    pub template: Option<&'static str>,
}

impl Plan {
    /// A server with these models.
    pub fn new(models: &[&str]) -> Plan {
        let offer = |name: &&str| Offer { id: name.to_string(), name: name.to_string(), aliases: vec![] };
        let limits = Limits { head_time: Duration::from_secs(5), ..Limits::default() };
        let settings = Settings {
            models: models.iter().map(offer).collect(),
            limits,
            grace: Duration::from_secs(30),
            ..Settings::default()
        };
        let batch = BatchSettings { most_running: 4, ..BatchSettings::default() };
        Plan { settings, batch, template: None }
    }

    /// Starts it.
    pub fn start(self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stops) = unbounded_channel();
        let (wires, log) = (Arc::new(Wires::default()), Arc::new(Mutex::new(Vec::new())));
        let loader = Arc::new(Models { wires: wires.clone(), batch: self.batch, template: self.template });
        let lines = log.clone();
        let write: Log = Arc::new(move |line| lines.lock().unwrap().push(line.to_string()));
        let settings = self.settings;
        let thread = std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(serve(listener, settings, loader, write, || (), stops))
        });
        Server { address, wires, log, stop, thread: Some(thread) }
    }
}

impl Server {
    pub fn get(&self, path: &str) -> Response {
        exchange(self.address, &request("GET", path, &[], ""))
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        exchange(self.address, &request("POST", path, &[], &body.to_string()))
    }

    /// Asks a chat with one question; further fields are added.
    pub fn chat(&self, fields: Value) -> Response {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Once upon a time" }] });
        merge(&mut body, fields);
        self.post("/v1/chat/completions", &body)
    }

    /// Continues a text; further fields are added.
    pub fn complete(&self, fields: Value) -> Response {
        let mut body = json!({ "prompt": "Once upon a time", "temperature": 0 });
        merge(&mut body, fields);
        self.post("/v1/completions", &body)
    }

    /// The value of a metric with these labels in its line.
    pub fn metric(&self, start: &str) -> Option<f64> {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(start))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// The lines of the log so far.
    pub fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Tells it to stop.
    pub fn stop(&self) {
        let _ = self.stop.send(());
    }

    /// Waits for its end.
    pub fn join(&mut self) -> Result<(), Error> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The first asks, the second does not wait.
        self.stop();
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Adds the fields of one object to another.
pub fn merge(body: &mut Value, fields: Value) {
    let (Value::Object(body), Value::Object(fields)) = (body, fields) else { panic!("objects") };
    body.extend(fields);
}

/// Waits until something holds, for at most half a minute.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come to hold");
        std::thread::sleep(Duration::from_millis(10));
    }
}
