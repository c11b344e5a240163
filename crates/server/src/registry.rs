//! The models of a server: loaded on first use, unloaded when no request has asked for them in a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::errors::Problem;
use crate::ids;
use crate::log::Log;
use crate::model::{Model, Parts};

/// Loads models by name; the command line implements it.
pub trait Loader: Send + Sync + 'static {
    /// Loads a model, which may take minutes; called on a thread of its own.
    fn load(&self, name: &str) -> Result<Parts, Box<dyn std::error::Error + Send + Sync>>;
}

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What clients call it.
    pub id: String,
    /// What the loader calls it.
    pub name: String,
    /// Other names under which clients may ask for it.
    pub aliases: Vec<String>,
}

/// All models that a server offers.
pub struct Registry {
    entries: Vec<Arc<Entry>>,
    loader: Arc<dyn Loader>,
    log: Log,
    /// Unix time at which the server started.
    started: u64,
}

/// One of the models.
pub struct Entry {
    /// Its names.
    pub offer: Offer,
    /// Held while it is loaded, so that it is loaded once.
    loading: tokio::sync::Mutex<()>,
    loaded: Mutex<Option<Loaded>>,
}

struct Loaded {
    model: Arc<Model>,
    last_used: Instant,
}

impl Registry {
    /// A registry in which nothing is loaded yet.
    pub fn new(offers: Vec<Offer>, loader: Arc<dyn Loader>, log: Log) -> Registry {
        let entry = |offer| Arc::new(Entry { offer, loading: Default::default(), loaded: Mutex::new(None) });
        let started = ids::now();
        Registry { entries: offers.into_iter().map(entry).collect(), loader, log, started }
    }

    /// All models.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Unix time at which the server started.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// The model of a name, or the only one where no name is given.
    pub fn find(&self, name: Option<&str>) -> Result<&Arc<Entry>, Problem> {
        match (name, &self.entries[..]) {
            (Some(name), entries) => entries
                .iter()
                .find(|entry| entry.offer.id == name)
                .or_else(|| {
                    entries.iter().find(|entry| entry.offer.aliases.iter().any(|alias| alias == name))
                })
                .ok_or_else(|| Problem::unknown_model(name)),
            (None, [only]) => Ok(only),
            (None, _) => {
                Err(Problem::invalid("model", "`model` is missing, and there are several models here"))
            }
        }
    }

    /// Loads a model if it is not loaded.
    pub async fn load(&self, entry: &Arc<Entry>) -> Result<Arc<Model>, Problem> {
        if let Some(model) = entry.used() {
            return Ok(model);
        }
        let (loader, own) = (self.loader.clone(), entry.clone());
        // A task of its own: a client that gives up does not leave a load behind that others wait for in vain.
        let log = self.log.clone();
        let task = tokio::spawn(async move {
            let _loading = own.loading.lock().await;
            if let Some(model) = own.used() {
                return Ok(model);
            }
            let name = own.offer.name.clone();
            let loaded =
                tokio::task::spawn_blocking(move || loader.load(&name).map_err(|error| error.to_string()));
            let parts = loaded.await.unwrap_or_else(|panic| Err(panic.to_string())).map_err(|error| {
                log(&format!("{}: cannot be loaded: {error}", own.offer.id));
            })?;
            let model = Arc::new(Model::new(&own.offer.id, parts));
            *own.loaded() = Some(Loaded { model: model.clone(), last_used: Instant::now() });
            Ok(model)
        });
        // Why is the operator's: it may name files.
        let failed = || Problem::unavailable("the model cannot be loaded; the server's log says why");
        task.await.unwrap_or(Err(())).map_err(|()| failed())
    }

    /// Forgets a model whose engine has stopped, so that the next request loads it again.
    pub fn forget(&self, model: &Arc<Model>) {
        for entry in &self.entries {
            let mut loaded = entry.loaded();
            if loaded.as_ref().is_some_and(|loaded| Arc::ptr_eq(&loaded.model, model)) {
                *loaded = None;
            }
        }
    }

    /// Unloads all models that no request uses or has asked for in this time. Returns their names.
    pub fn unload_idle(&self, after: Duration) -> Vec<String> {
        let mut unloaded = Vec::new();
        for entry in &self.entries {
            let mut loaded = entry.loaded();
            let Some(Loaded { model, last_used }) = loaded.as_mut() else { continue };
            if Arc::strong_count(model) > 1 || !model.engine.is_idle() {
                *last_used = Instant::now();
            } else if last_used.elapsed() >= after {
                *loaded = None;
                unloaded.push(entry.offer.id.clone());
            }
        }
        unloaded
    }

    /// Has all engines take no more requests.
    pub fn close(&self) {
        self.entries.iter().filter_map(|entry| entry.peek()).for_each(|model| model.engine.close());
    }
}

impl Entry {
    /// The model if it is loaded, without counting as use.
    pub fn peek(&self) -> Option<Arc<Model>> {
        self.loaded().as_ref().map(|loaded| loaded.model.clone())
    }

    /// The model if it is loaded, and it is used now.
    fn used(&self) -> Option<Arc<Model>> {
        let mut loaded = self.loaded();
        let loaded = loaded.as_mut()?;
        loaded.last_used = Instant::now();
        Some(loaded.model.clone())
    }

    fn loaded(&self) -> MutexGuard<'_, Option<Loaded>> {
        // What is in it is whole whenever the lock is free.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
