//! Where a model is, what it would take to have it here, and bringing it here.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::cache::Cache;
use crate::catalogue::{Entry, Origin, PackagedFile};
use crate::endpoint::Hub;
use crate::error::{Error, Result};
use crate::event::{Event, Outcome, Warning, Watch};
use crate::held::held;
use crate::listing::Listing;
use crate::name::Named;
use crate::reference::Reference;
use crate::request::Failure;
use crate::selection::Selection;
use crate::{download, packages};

/// Waits between attempts to have a listing.
const PAUSES_MS: [u64; 2] = [500, 2000];

/// Where the bytes of a model are.
#[derive(Debug, PartialEq)]
pub enum Source {
    /// A file (the first part of it, when it is split).
    Path(PathBuf),
    /// The model inside this crate.
    Embedded,
}

/// What a pull would bring, as far as it can be told before.
#[derive(Debug)]
pub struct Offer {
    /// The model, with the file chosen where a choice was left.
    pub model: Named,
    /// Bytes over all its parts.
    pub bytes: Option<u64>,
    /// `general.architecture` in its file.
    pub architecture: Option<String>,
    /// Where it, or its first part, will be.
    pub path: Option<PathBuf>,
}

/// A model that is here now, and how it came to be.
#[derive(Debug)]
pub struct Pulled {
    /// Where it is, exactly as [`locate`] says.
    pub source: Source,
    /// Bytes over all its parts; none for what is not ours to measure.
    pub bytes: Option<u64>,
    /// Hash of the file; none for a path, the embedded model and a model of several files.
    pub sha256: Option<String>,
    /// What had to be done.
    pub outcome: Outcome,
}

impl Named {
    /// Where it is if it needs neither cache nor network: a path, or the embedded model.
    pub fn local(&self) -> Option<Source> {
        match self {
            Self::Path(path) => Some(Source::Path(path.clone())),
            Self::Catalogue(Entry { origin: Origin::Embedded, .. }) => Some(Source::Embedded),
            _ => None,
        }
    }
}

/// Where a model is, if it is here and whole. Of a repository the best of what is here is taken.
pub fn locate(model: &Named, cache: &Cache) -> Result<Source> {
    match model {
        Named::Path(path) => Ok(Source::Path(path.clone())),
        Named::Catalogue(entry) => match &entry.origin {
            Origin::Embedded => Ok(Source::Embedded),
            Origin::Packages(file) => packaged(entry.name, file, cache).map(Source::Path),
        },
        Named::Hub(reference) => from_hub(reference, cache).map(Source::Path),
        Named::Selection(selection) => {
            let chosen = here(selection, cache)?;
            from_hub(&chosen, cache).map(Source::Path)
        }
    }
}

/// The file of a model of the catalogue, if it is in the cache.
fn packaged(name: &str, file: &PackagedFile, cache: &Cache) -> Result<PathBuf> {
    let path = cache.file(file.file);
    match std::fs::metadata(&path) {
        Ok(found) if found.len() == file.bytes => Ok(path),
        Ok(found) => Err(Error::Size { path, found: found.len(), expected: file.bytes }),
        Err(_) => Err(Error::Absent { name: name.to_owned() }),
    }
}

/// The first file of a model of the hub, if all its files are in the cache.
fn from_hub(reference: &Reference, cache: &Cache) -> Result<PathBuf> {
    let parts: Vec<PathBuf> = reference.parts().iter().map(|part| cache.file(part.cache_path())).collect();
    match parts.iter().all(|part| part.is_file()) {
        // `parts` is never empty: a file is at least itself.
        true => Ok(parts[0].clone()),
        false => Err(Error::Absent { name: reference.to_string() }),
    }
}

/// The model of a repository to take of those that are in the cache and whole.
fn here(selection: &Selection, cache: &Cache) -> Result<Reference> {
    let held = held(cache);
    let whole = held.iter().filter(|model| model.complete);
    let here = whole.filter(|model| model.reference.repository() == selection.repository());
    let files = here.map(|model| model.reference.file());
    if selection.matching(files.clone()).is_empty() {
        return Err(Error::Absent { name: selection.to_string() });
    }
    selection.choose(files)
}

/// What a pull would bring. The hub is asked to choose a file and, for a file that is not here, about its
/// size and architecture: what it does not say then stays unknown.
pub fn offer(model: &Named, cache: &Cache, watch: Watch) -> Result<Offer> {
    let nothing = |model| Offer { model, bytes: None, architecture: None, path: None };
    match model {
        Named::Path(_) | Named::Catalogue(Entry { origin: Origin::Embedded, .. }) => {
            Ok(nothing(model.clone()))
        }
        Named::Catalogue(Entry { architecture, origin: Origin::Packages(file), .. }) => Ok(Offer {
            model: model.clone(),
            bytes: Some(file.bytes),
            architecture: Some((*architecture).to_owned()),
            path: Some(cache.file(file.file)),
        }),
        Named::Hub(reference) => {
            let hub = Hub::from_environment()?;
            let listing = Listing::ask(&hub, reference.repository(), reference.to_string()).ok();
            Ok(hub_offer(reference.clone(), listing.as_ref(), cache))
        }
        Named::Selection(selection) => {
            if let Ok(chosen) = here(selection, cache) {
                return Ok(nothing(Named::Hub(chosen)));
            }
            let hub = Hub::from_environment()?;
            let listing =
                patiently(watch, || Listing::ask(&hub, selection.repository(), selection.to_string()))?;
            let chosen = selection.choose(listing.files())?;
            Ok(hub_offer(chosen, Some(&listing), cache))
        }
    }
}

fn hub_offer(model: Reference, listing: Option<&Listing>, cache: &Cache) -> Offer {
    Offer {
        bytes: listing.and_then(|listing| listing.bytes(&model)),
        architecture: listing.and_then(Listing::architecture).map(str::to_owned),
        path: Some(cache.file(model.parts()[0].cache_path())),
        model: Named::Hub(model),
    }
}

/// Tries again a few times what may work in a while.
fn patiently<T>(watch: Watch, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T> {
    for pause_ms in PAUSES_MS {
        match attempt() {
            Err(Failure::Passing { error, pause }) => {
                let pause = pause.unwrap_or(Duration::from_millis(pause_ms)).min(download::LONGEST_PAUSE);
                watch(Event::Warning(Warning::Retrying { error: &error, pause }));
                thread::sleep(pause);
            }
            other => return other.map_err(Failure::into_error),
        }
    }
    attempt().map_err(Failure::into_error)
}

/// Brings a model here if it is not here yet.
pub fn pull(model: &Named, cache: &Cache, watch: Watch) -> Result<Pulled> {
    let local = |source| Pulled { source, bytes: None, sha256: None, outcome: Outcome::Local };
    let (bytes, sha256, outcome) = match model {
        Named::Path(path) => return Ok(local(Source::Path(path.clone()))),
        Named::Catalogue(Entry { origin: Origin::Embedded, .. }) => return Ok(local(Source::Embedded)),
        Named::Catalogue(Entry { name, origin: Origin::Packages(file), .. }) => {
            let _lock = cache.lock(watch)?;
            let outcome = packages::pull(name, file, cache, &packages::Programs::default(), watch)?;
            (file.bytes, Some(file.sha256.to_owned()), outcome)
        }
        Named::Selection(_) => return pull(&offer(model, cache, watch)?.model, cache, watch),
        Named::Hub(reference) => {
            let hub = Hub::from_environment()?;
            if hub.token_withheld {
                watch(Event::Warning(Warning::TokenWithheld { endpoint: &hub.endpoint }));
            }
            let _lock = cache.lock(watch)?;
            let mut files = Vec::new();
            for part in reference.parts() {
                files.push(download::pull(&part, cache, &hub, watch)?);
            }
            let kept = files.iter().all(|file| file.outcome == Outcome::Kept);
            let sha256 = if let [only] = &files[..] { Some(only.sha256.clone()) } else { None };
            let outcome = if kept { Outcome::Kept } else { Outcome::Downloaded };
            (files.iter().map(|file| file.bytes).sum(), sha256, outcome)
        }
    };
    // Asking `locate` makes what `pull` answers the very path that is opened later.
    Ok(Pulled { source: locate(model, cache)?, bytes: Some(bytes), sha256, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EMBEDDED_NAME, catalogue, find};

    #[test]
    fn what_is_not_here_or_not_whole_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let Some(Entry { name, origin: Origin::Packages(file), .. }) = catalogue::find("smollm2-135m") else {
            panic!("the catalogue has changed")
        };
        assert_eq!(
            packaged(name, file, &cache).unwrap_err().to_string(),
            "smollm2-135m is not downloaded yet"
        );
        std::fs::write(cache.file(file.file), b"short").unwrap();
        let message = packaged(name, file, &cache).unwrap_err().to_string();
        assert!(message.ends_with("has 5 bytes instead of 98362432"));

        let parts: Reference = "o/r/m-00001-of-00002.gguf".parse().unwrap();
        let [first, second] = [0, 1].map(|index| cache.file(parts.parts()[index].cache_path()));
        std::fs::create_dir_all(first.parent().unwrap()).unwrap();
        std::fs::write(&first, b"1").unwrap();
        assert_eq!(
            from_hub(&parts, &cache).unwrap_err().to_string(),
            "hf:o/r/m-00001-of-00002.gguf is not downloaded yet"
        );
        std::fs::write(&second, b"2").unwrap();
        assert_eq!(from_hub(&parts, &cache).unwrap(), first);
    }

    #[test]
    fn the_embedded_model_is_always_here() {
        let cache = Cache::at("/no/such/folder");
        assert_eq!(locate(&find(EMBEDDED_NAME).unwrap(), &cache).unwrap(), Source::Embedded);
    }

    #[test]
    fn of_a_repository_the_best_that_is_here_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let located = |name: &str| match locate(&find(name).unwrap(), &cache) {
            Ok(Source::Path(path)) => path.file_name().unwrap().to_str().unwrap().to_owned(),
            other => format!("{other:?}"),
        };
        let absent = r#"Err(Absent { name: "hf:o/r" })"#;
        assert_eq!(located("hf:o/r"), absent);
        for file in ["m-Q2_K.gguf", "m-Q8_0.gguf", "m-Q4_K_M-00001-of-00002.gguf"] {
            let reference: Reference = format!("o/r/{file}").parse().unwrap();
            let path = cache.file(reference.cache_path());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        // Half a Q4_K_M is none.
        assert_eq!(located("hf:o/r"), "m-Q8_0.gguf");
        assert_eq!(located("hf:o/r:q2_k"), "m-Q2_K.gguf");
        assert_eq!(located("hf:o/r:Q4_K_M"), absent.replace("r\"", "r:Q4_K_M\""));
        assert_eq!(located("hf:o/r@v2"), absent.replace("r\"", "r@v2\""));
    }
}
