//! `gleed serve`: models for others, over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_engine::{BatchSettings, Engine, EngineHandle};
use gleed_model::program::Output;
use gleed_server::{Keys, Limits, Loader, Log, Offer, Parts, Settings, Tls};
use gleed_tokenizer::ChatTemplate;
use serde_json::{Map, Value, json};

use crate::commands::inspect::by_format;
#[cfg(feature = "gpu")]
use crate::device::Device;
use crate::load::{self, Loaded, Options};
use crate::output;
use crate::speculation::Guessing;
use crate::talk::{MAX_ROWS, own_template};

/// Answer others over HTTP, with the API of OpenAI
#[derive(Args)]
pub struct Arguments {
    /// Models by path, name from `gleed list` or `hf:owner/repository[:FORMAT]`, or folders of GGUF files. A single one
    /// is loaded at once, several when they are asked for
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,

    /// Another name for a model, as NAME=MODEL; may be repeated
    #[arg(long, value_name = "NAME=MODEL", value_parser = alias)]
    alias: Vec<(String, String)>,

    /// Unload a model that no request has asked for in N minutes; 0 keeps it [default: 30 with several models]
    #[arg(long, value_name = "N")]
    idle_minutes: Option<u64>,

    /// The address to listen on; 0.0.0.0 opens the server to the network
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    host: IpAddr,

    /// The port to listen on
    #[arg(long, default_value_t = 8080)]
    port: u16,

    /// A key that clients must send; may be repeated
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,

    /// A file with such keys, one a line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Let web pages of this origin ask, such as `https://example.org`, or * for any; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,

    /// Encrypt connections with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Requests that are computed at once [default: 16, or 64 where there is a GPU]
    #[arg(long, value_name = "N")]
    parallel: Option<usize>,

    /// Requests that may wait for their turn; more are refused with 429
    #[arg(long, default_value_t = 256, value_name = "N")]
    queue: usize,

    /// Positions of one request: prompt and answer together [default: the model's, or what memory allows]
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,

    /// End answers that take longer than this many seconds
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<u64>,

    /// Seconds that running answers have to end when the server is told to stop
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    grace: u64,

    /// The most bytes of a request
    #[arg(long, default_value_t = Limits::default().body, value_name = "BYTES")]
    max_body: usize,

    /// The most answers to one prompt (`n`)
    #[arg(long, default_value_t = Limits::default().choices, value_name = "N")]
    max_choices: usize,

    /// Write prompts into the log
    #[arg(long)]
    log_prompts: bool,

    #[command(flatten)]
    guessing: Guessing,

    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let models = offers(&arguments.models, &arguments.alias)?;
    let keys = keys(&arguments)?;
    let address = SocketAddr::new(arguments.host, arguments.port);
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    if keys.is_empty() && !address.ip().is_loopback() {
        output::warning(format!("{address} is open to whoever reaches it: --api-key asks for a key"));
    }
    let parallel = arguments.parallel.unwrap_or_else(|| usual_parallel(&arguments.options));
    if parallel == 0 {
        bail!("--parallel must be at least 1");
    }
    let idle = match arguments.idle_minutes {
        Some(0) => None,
        Some(minutes) => Some(minutes),
        None => (models.len() > 1).then_some(30),
    };
    let tls = arguments.tls_cert.zip(arguments.tls_key).map(|(certificate, key)| Tls { certificate, key });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let ids: Vec<String> = models.iter().map(|offer| offer.id.clone()).collect();
    let settings = Settings {
        models,
        idle: idle.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
        keys,
        cors: arguments.cors,
        tls,
        limits: Limits {
            body: arguments.max_body,
            choices: arguments.max_choices.max(1),
            ..Limits::default()
        },
        logs_prompts: arguments.log_prompts,
        deadline: arguments.deadline.map(Duration::from_secs),
        grace: Duration::from_secs(arguments.grace),
    };
    let loader = Models {
        options: arguments.options,
        context: arguments.context,
        guessing: arguments.guessing,
        settings: BatchSettings {
            most_running: parallel,
            most_waiting: arguments.queue,
            ..BatchSettings::default()
        },
    };
    let ready = || output::note(format!("{} on {scheme}://{address}", ids.join(", ")));
    gleed_server::run(listener, settings, Arc::new(loader), log(), ready)?;
    Ok(())
}

/// Lines that may wait to be written.
const WAITING_LINES: usize = 4096;

/// Writes lines to stderr, on a thread of its own: where they are not read, lines are lost rather than requests.
fn log() -> Log {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<String>(WAITING_LINES);
    std::thread::spawn(move || receiver.iter().for_each(output::note));
    Arc::new(move |line| _ = sender.try_send(line.to_string()))
}

/// Loads models for the server.
struct Models {
    options: Options,
    context: Option<usize>,
    guessing: Guessing,
    settings: BatchSettings,
}

impl Loader for Models {
    fn load(&self, name: &str) -> Result<Parts, Box<dyn std::error::Error + Send + Sync>> {
        // With its causes, in one line of the log.
        self.parts(name).map_err(|error| output::chain(&error).into())
    }
}

impl Models {
    fn parts(&self, name: &str) -> Result<Parts> {
        let loaded = load::open(name, &self.options.lora)?;
        // One flag for all models, some of which may have less.
        let own = loaded.model.config.context;
        if let Some(asked) = self.context.filter(|&asked| asked > own) {
            output::note(format!("{name}: {own} positions, not --context {asked}: the model has no more"));
        }
        let context = loaded.context(self.context.map(|asked| asked.min(own)))?;
        let most = context.unwrap_or(own);
        let tokenizer = load::tokenizer(&loaded.file)?;
        let draft = self.guessing.open_draft(&tokenizer)?;
        let template = own_template(&loaded).map_or_else(|| ChatTemplate::fallback(&tokenizer), Ok)?;
        let tool_template = ChatTemplate::named_from_metadata(loaded.file.metadata(), "tool_use")?;
        let program = &loaded.model.program;
        // A text that must be seen as a whole has to fit into one step.
        let is_whole = program.output != Output::Logits && program.needs_whole_sequences();
        let rows = if is_whole { most.max(MAX_ROWS) } else { MAX_ROWS.min(most) };
        let loaded = loaded.for_sequences(self.settings.most_running, context)?;
        let executor = loaded.executor(&self.options, None, rows)?;
        let mut about = executor.report(&loaded);
        about.extend(facts(&loaded));
        let (engine, settings) = (Engine::new(Box::new(executor)), self.settings.clone());
        let batcher = self.guessing.batcher(engine, settings, draft, &self.options, self.context)?;
        let engine = EngineHandle::of(batcher);
        Ok(Parts { tokenizer, template, tool_template, engine, context, about })
    }
}

/// What clients are told of a model's file.
fn facts(loaded: &Loaded) -> Map<String, Value> {
    let file = &loaded.file;
    let parameters: usize = file.tensors().iter().map(|tensor| tensor.len()).sum();
    let format = by_format(file).first().map(|(format, _, _)| format.to_string());
    let facts = [
        ("architecture", json!(loaded.model.config.architecture)),
        ("parameters", json!(parameters)),
        ("weight_bytes", json!(file.tensor_bytes())),
        ("format", json!(format)),
    ];
    facts.into_iter().map(|(name, fact)| (name.to_string(), fact)).collect()
}

/// How many requests are computed at once where the user does not say: a GPU is faster the more there are.
#[cfg(feature = "gpu")]
fn usual_parallel(options: &Options) -> usize {
    let may_be_on_gpu = options.device != Device::Cpu && options.gpu_layers != Some(0);
    if may_be_on_gpu && gleed_gpu::may_be_there() { 64 } else { 16 }
}

#[cfg(not(feature = "gpu"))]
fn usual_parallel(_options: &Options) -> usize {
    16
}

/// All models that were named: files of folders, and others as they are.
fn offers(names: &[String], aliases: &[(String, String)]) -> Result<Vec<Offer>> {
    let mut offers: Vec<Offer> = Vec::new();
    for name in names {
        let path = Path::new(name);
        let found = if path.is_dir() { in_folder(path)? } else { vec![name.clone()] };
        for name in found {
            let id = id(&name);
            if let Some(other) = offers.iter().find(|other| other.id == id) {
                bail!("{name} and {} would both be called {id}: rename one of the files", other.name);
            }
            offers.push(Offer { id, name, aliases: Vec::new() });
        }
    }
    for (alias, model) in aliases {
        if offers.iter().any(|offer| offer.id == *alias || offer.aliases.contains(alias)) {
            bail!("--alias {alias}={model}: there is a model of that name already");
        }
        let known = |offer: &&mut Offer| offer.id == *model || offer.name == *model;
        match offers.iter_mut().find(known) {
            Some(offer) => offer.aliases.push(alias.clone()),
            None => bail!("--alias {alias}={model}: {model} is not one of the models that are served"),
        }
    }
    Ok(offers)
}

/// What clients call a model: its name, or that of its file without the ending.
fn id(name: &str) -> String {
    let Some(stem) = name.strip_suffix(".gguf") else { return name.to_string() };
    let stem = stem.rsplit(['/', '\\']).next().unwrap_or(stem);
    // The first of several files stands for all.
    match stem.rsplit_once("-00001-of-") {
        Some((whole, count)) if count.len() == 5 => whole.to_string(),
        _ => stem.to_string(),
    }
}

/// The models of a folder, of split ones their first files.
fn in_folder(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = path.to_string_lossy().into_owned();
        let part =
            name.rsplit_once("-of-").and_then(|(before, _)| before.rsplit_once('-')).map(|(_, part)| part);
        let is_later =
            part.is_some_and(|part| part.len() == 5 && part.parse().is_ok_and(|part: u32| part > 1));
        if name.ends_with(".gguf") && path.is_file() && !is_later {
            names.push(name);
        }
    }
    if names.is_empty() {
        bail!("{}: no GGUF files are in it", folder.display());
    }
    names.sort();
    Ok(names)
}

/// The keys of the command line and of the file.
fn keys(arguments: &Arguments) -> Result<Keys> {
    let mut keys = arguments.api_key.clone();
    if let Some(file) = &arguments.api_key_file {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        keys.extend(text.lines().map(str::to_string));
    }
    let asked = arguments.api_key_file.is_some() || !arguments.api_key.is_empty();
    let keys = Keys::new(keys);
    if asked && keys.is_empty() {
        bail!("there is no key in --api-key or --api-key-file: without one the server would be open");
    }
    Ok(keys)
}

fn alias(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, model)) if !name.is_empty() && !model.is_empty() => {
            Ok((name.to_string(), model.to_string()))
        }
        _ => Err("expected NAME=MODEL".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_called_by_the_names_of_their_files() {
        assert_eq!(id("models/stories15M-q8_0.gguf"), "stories15M-q8_0");
        assert_eq!(id("/a/big-00001-of-00012.gguf"), "big");
        assert_eq!(id("smollm2-135m"), "smollm2-135m");
        assert_eq!(id("hf:owner/repository:Q8_0"), "hf:owner/repository:Q8_0");
    }

    #[test]
    fn names_are_unique_and_aliases_known() {
        let offers = |names: &[&str], aliases: &[(&str, &str)]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            let aliases: Vec<_> = aliases.iter().map(|(a, m)| (a.to_string(), m.to_string())).collect();
            super::offers(&names, &aliases).map_err(|error| error.to_string())
        };
        let found = offers(&["x/a.gguf", "b"], &[("gpt-4o", "a"), ("other", "x/a.gguf")]).unwrap();
        assert_eq!(found[0].aliases, ["gpt-4o", "other"]);
        assert!(offers(&["x/a.gguf", "y/a.gguf"], &[]).unwrap_err().contains("rename"));
        assert!(offers(&["a"], &[("b", "c")]).unwrap_err().contains("not one of the models"));
        assert!(offers(&["a", "b"], &[("b", "a")]).unwrap_err().contains("already"));
    }

    #[test]
    fn folders_are_read_for_models() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.gguf", "a.gguf", "notes.txt", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let ids: Vec<String> = in_folder(folder.path()).unwrap().iter().map(|name| id(name)).collect();
        assert_eq!(ids, ["a", "b", "s"]);
    }
}
