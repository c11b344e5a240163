//! A server's life: models are loaded, requests are answered, and at the end what runs is finished.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::api;
use crate::app::App;
use crate::auth::Keys;
use crate::connections::Connections;
use crate::limits::Limits;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::origin::Origins;
use crate::registry::{Loader, Offer, Registry};
use crate::signals;
use crate::status::History;
use crate::tls::{Tls, TlsError};

/// How a server is run.
#[derive(Clone, Default)]
pub struct Settings {
    /// The models it offers. A single one is loaded before the first request is taken, several when they are asked for.
    pub models: Vec<Offer>,
    /// After how long without a request a model is unloaded; none keeps it.
    pub idle: Option<Duration>,
    /// Who may ask.
    pub keys: Keys,
    /// Web pages (`https://example.org`, or `*`) that may ask.
    pub cors: Vec<String>,
    /// Encrypts connections.
    pub tls: Option<Tls>,
    /// What a request may ask for.
    pub limits: Limits,
    /// Whether the log has prompts.
    pub logs_prompts: bool,
    /// How long an answer may take.
    pub deadline: Option<Duration>,
    /// How long answers may go on after the server was told to stop.
    pub grace: Duration,
}

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate or its key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The only model.
    #[error("{0}")]
    Load(String),
}

/// Threads for heavy work (templates, grammars, loading) at once: more would take the engine's cores from it.
const HEAVY_THREADS: usize = 16;

/// How long connections have to end when nothing runs any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves on threads of its own until the process is told to stop: by Ctrl-C or SIGTERM, after which a second one ends
/// what still runs. See [`serve`].
pub fn run(
    listener: TcpListener,
    settings: Settings,
    loader: Arc<dyn Loader>,
    log: Log,
    ready: impl FnOnce(),
) -> Result<(), Error> {
    // Handlers do little: engines and heavy work have threads of their own.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(HEAVY_THREADS).enable_all().build()?;
    let result = runtime.block_on(async {
        let stop = signals::stops()?;
        serve(listener, settings, loader, log, ready, stop).await
    });
    // A model that is being loaded is not waited for.
    runtime.shutdown_timeout(LAST_WORDS);
    result
}

/// Serves until `stop` brings something or is closed, then finishes what runs, for as long as the settings allow and
/// nothing more comes, and refuses the rest. `ready` is called when the first request would be answered.
pub async fn serve(
    listener: TcpListener,
    settings: Settings,
    loader: Arc<dyn Loader>,
    log: Log,
    ready: impl FnOnce(),
    stop: UnboundedReceiver<()>,
) -> Result<(), Error> {
    let tls = settings.tls.as_ref().map(Tls::acceptor).transpose()?;
    listener.set_nonblocking(true)?;
    let is_local = listener.local_addr()?.ip().is_loopback();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let models = Arc::new(Registry::new(settings.models, loader, log.clone()));
    if let [only] = models.entries() {
        models.load(only).await.map_err(|problem| Error::Load(problem.message))?;
    }
    let app = Arc::new(App {
        metrics: Arc::new(Metrics::new(models.clone())),
        models,
        history: History::default(),
        limits: settings.limits.clone(),
        origins: Origins { allowed: settings.cors, local_only: is_local && settings.keys.is_empty() },
        keys: settings.keys,
        log,
        logs_prompts: settings.logs_prompts,
        deadline: settings.deadline,
        flights: Arc::new(()),
        closing: AtomicBool::new(false),
    });
    let watch = tokio::spawn(watch(app.clone(), settings.idle));
    ready();
    let connections =
        Connections { listener, tls, router: api::router(app.clone()), limits: settings.limits };
    connections.serve(drained(&app, stop, settings.grace), LAST_WORDS).await;
    watch.abort();
    Ok(())
}

/// Ready when the server was told to stop and nothing runs any more, or no longer may. Until then connections are
/// accepted, and what they ask for is refused.
async fn drained(app: &App, mut stop: UnboundedReceiver<()>, grace: Duration) {
    stop.recv().await;
    app.closing.store(true, Ordering::SeqCst);
    app.models.close();
    (app.log)(&format!("stopping: {} requests run and have {} s to end", app.in_flight(), grace.as_secs()));
    let nothing_runs = async {
        while app.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let again = async {
        // Without a sender no second signal can come.
        if stop.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    };
    let is_done = tokio::select! {
        () = nothing_runs => true,
        () = tokio::time::sleep(grace) => false,
        () = again => false,
    };
    if !is_done {
        (app.log)(&format!("stopping: {} requests are cut off", app.in_flight()));
    }
}

/// Once a second: a sample for the status page, and a look for models that no request uses.
async fn watch(app: Arc<App>, idle: Option<Duration>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        app.history.sample(&app);
        if let Some(idle) = idle {
            let unloaded = app.models.unload_idle(idle);
            unloaded.iter().for_each(|id| (app.log)(&format!("{id}: unloaded, nobody has asked for it")));
        }
    }
}
