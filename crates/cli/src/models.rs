//! Models by name, in words for people: what `gleed-hub` has to tell becomes bars, warnings and advice. A
//! model that is not here is fetched when a command needs it, unless `--offline` forbids it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use gleed_hub::{Cache, Error, Event, Named, Offer, Outcome, Pulled, Source, Step, catalogue};

use crate::output;
use crate::progress::Progress;

/// Whether the network is left alone. Said once, before any command runs, for all of them.
static OFFLINE: AtomicBool = AtomicBool::new(false);

/// What a command wants a model for.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    /// To compute with it: one of an unknown architecture is of no use.
    Run,
    /// To look into its file.
    Read,
}

/// Forbids fetching if `asked`, or if `GLEED_OFFLINE` is set to anything but 0.
pub fn stay_offline(asked: bool) {
    let set = std::env::var_os("GLEED_OFFLINE").is_some_and(|value| !value.is_empty() && value != "0");
    OFFLINE.store(asked || set, Ordering::Relaxed);
}

/// Whether this build can run models of this architecture.
pub fn is_runnable(architecture: &str) -> bool {
    gleed_model::archs::known().any(|known| known == architecture)
}

/// Says what a name means.
pub fn find(name: &str) -> Result<Named> {
    gleed_hub::find(name).map_err(advised)
}

/// The file (or the embedded model) that a name stands for, ready to be run; fetched if it is not here.
pub fn resolve(name: &str) -> Result<Source> {
    resolve_for(Use::Run, name)
}

/// The same for a command that looks into a file, whether or not it can be run.
pub fn resolve_to_read(name: &str) -> Result<Source> {
    resolve_for(Use::Read, name)
}

fn resolve_for(purpose: Use, name: &str) -> Result<Source> {
    let model = find(name)?;
    if let Some(source) = model.local() {
        return Ok(source);
    }
    let cache = Cache::locate()?;
    match gleed_hub::locate(&model, &cache) {
        Err(missing @ (Error::Absent { .. } | Error::Size { .. })) => {
            if OFFLINE.load(Ordering::Relaxed) {
                bail!("{missing}, and offline nothing is fetched: leave out --offline or GLEED_OFFLINE");
            }
            Ok(fetch(name, &model, &cache, purpose)?.source)
        }
        located => located.map_err(advised),
    }
}

/// Brings a model here if it is not here yet, or if the hub has another version.
pub fn pull(name: &str, model: &Named) -> Result<Pulled> {
    if let Some(source) = model.local() {
        return Ok(Pulled { source, bytes: None, sha256: None, outcome: Outcome::Local });
    }
    if OFFLINE.load(Ordering::Relaxed) {
        bail!("{name} is not pulled offline: leave out --offline or GLEED_OFFLINE");
    }
    fetch(name, model, &Cache::locate()?, Use::Read)
}

/// Pulls with a bar on a terminal, after a line that says what comes and where to.
fn fetch(name: &str, model: &Named, cache: &Cache, purpose: Use) -> Result<Pulled> {
    let bar = Bar::default();
    let watch = |event: Event<'_>| bar.show(event);
    if gleed_hub::locate(model, cache).is_ok() {
        return gleed_hub::pull(model, cache, &watch).map_err(advised);
    }
    let offer = gleed_hub::offer(model, cache, &watch).map_err(advised)?;
    if let Some(architecture) = offer.architecture.as_deref().filter(|name| !is_runnable(name)) {
        let reason = format!("gleed does not know its architecture, {architecture}");
        match purpose {
            Use::Run => bail!("{name} cannot be run and is not fetched: {reason}"),
            Use::Read => output::warning(format!("{name} cannot be run: {reason}")),
        }
    }
    announce(name, &offer);
    gleed_hub::pull(&offer.model, cache, &watch).map_err(advised)
}

/// One line about what is fetched, and where to.
fn announce(name: &str, offer: &Offer) {
    let size = offer.bytes.map(|bytes| format!(" ({})", output::human_bytes(bytes))).unwrap_or_default();
    if let Some(path) = &offer.path {
        output::note(format!("fetching {name}{size} into {}", path.display()));
    }
}

/// A model of the cache by its name, and the files of it that are there to be removed.
pub fn find_removable(name: &str) -> Result<(Named, Vec<PathBuf>)> {
    // A file elsewhere that is called like a model does not hide it: only the cache counts here.
    let model = match gleed_hub::find_model(name) {
        Err(Error::Unknown { .. }) if Path::new(name).exists() => Named::Path(PathBuf::from(name)),
        found => found.map_err(advised)?,
    };
    let files = gleed_hub::removable(&model, &Cache::locate()?).map_err(|error| match error {
        Error::Absent { name } => anyhow!("{name} is not here: `gleed list` shows what is"),
        other => advised(other),
    })?;
    Ok((model, files))
}

/// Removes a model from the cache and gives the bytes that this frees.
pub fn remove(model: &Named) -> Result<u64> {
    let bar = Bar::default();
    gleed_hub::remove(model, &Cache::locate()?, &|event| bar.show(event)).map_err(advised)
}

/// An error with what to type next.
fn advised(error: Error) -> anyhow::Error {
    match &error {
        Error::Unknown { name, near } => {
            let near: Vec<String> =
                near.iter().map(ToString::to_string).chain(files_near(Path::new(name))).collect();
            let meant = match &near[..] {
                [] => String::new(),
                near => format!("; did you mean {}?", near.join(" or ")),
            };
            anyhow!("{error}: `gleed list` shows the known ones{meant}")
        }
        _ => anyhow::Error::new(error),
    }
}

/// Model files beside a path that does not exist, which may have been meant.
fn files_near(path: &Path) -> Vec<String> {
    let (Some(folder), Some(typed)) = (path.parent(), path.file_name().map(|name| name.to_string_lossy()))
    else {
        return Vec::new();
    };
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = std::fs::read_dir(here).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_near = |name: &String| {
        name.ends_with(".gguf") && catalogue::edit_distance(&typed, name) * 3 <= typed.chars().count()
    };
    let mut near: Vec<String> = names.filter_map(|name| name.into_string().ok()).filter(is_near).collect();
    near.sort_by_key(|name| catalogue::edit_distance(&typed, name));
    near.into_iter().take(3).map(|name| folder.join(name).display().to_string()).collect()
}

/// Shows the events of a pull: one bar at a time.
#[derive(Default)]
struct Bar {
    progress: RefCell<Option<Progress>>,
}

impl Bar {
    fn show(&self, event: Event) {
        let mut progress = self.progress.borrow_mut();
        match (event, &*progress) {
            (Event::Waiting, _) => output::note("waiting for another gleed that is pulling"),
            (Event::File(name), _) => *progress = Some(Progress::new(name, 0).bytes()),
            (Event::Step(step), Some(progress)) => {
                progress.message(match step {
                    Step::Checking => "checking".to_owned(),
                    Step::Downloading => String::new(),
                    Step::Package { number, count } => format!("package {number}/{count}"),
                });
                // The speed of one step says nothing about that of the next.
                progress.restart_clock();
            }
            (Event::Progress { done, total }, Some(progress)) => {
                if let Some(total) = total {
                    progress.set_total(total);
                }
                progress.set(done);
            }
            (Event::Warning(warning), Some(progress)) => progress.warning(warning),
            (Event::Warning(warning), None) => output::warning(warning),
            (Event::Step(_) | Event::Progress { .. }, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_nearly_that_name_may_have_been_meant() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["model.gguf", "other-weights.gguf", "modle.txt"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(files_near(at("modle.gguf").as_ref()), [at("model.gguf")]);
        assert!(files_near(at("q.gguf").as_ref()).is_empty());
        assert!(files_near("/no/such/folder/model.gguf".as_ref()).is_empty());
        assert!(files_near("".as_ref()).is_empty());
    }

    #[test]
    fn errors_say_what_to_type() {
        let message = |error| advised(error).to_string();
        let (name, near) = ("smollm-135m".to_owned(), vec!["smollm2-135m"]);
        assert_eq!(
            message(Error::Unknown { name, near }),
            "no file or model named smollm-135m: `gleed list` shows the known ones; did you mean smollm2-135m?"
        );
        let (name, near) = ("/no/such.gguf".to_owned(), Vec::new());
        assert_eq!(
            message(Error::Unknown { name, near }),
            "no file or model named /no/such.gguf: `gleed list` shows the known ones"
        );
    }
}
