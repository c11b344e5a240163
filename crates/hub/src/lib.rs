//! Where do models come from? What a name means, where its file lies, and how it comes here.
//!
//! A name is a path if something exists there, a file of the hub if it starts with `hf:`, and otherwise a
//! name of the [`catalogue`]. [`find`] says which, [`locate`] answers with a file that is ready to be opened,
//! [`pull`] brings it here first. Nothing is printed: what a pull has to tell goes to its [`Watch`].
//!
//! ```no_run
//! use gleed_hub::{Cache, Source, find, pull};
//!
//! let model = find("smollm2-135m")?;
//! let pulled = pull(&model, &Cache::locate()?, &|event| eprintln!("{event:?}"))?;
//! if let Source::Path(path) = pulled.source {
//!     println!("{}", path.display());
//! }
//! # Ok::<(), gleed_hub::Error>(())
//! ```

pub mod catalogue;

mod address;
mod archive;
mod cache;
mod download;
mod endpoint;
mod error;
mod event;
mod held;
mod packages;
mod partial;
mod reference;
mod repository;
mod request;

use std::path::{Path, PathBuf};

pub use cache::Cache;
pub use error::{Error, Refusal, Result};
pub use event::{Event, Step, Warning, Watch};
pub use held::{Held, held};
pub use reference::Reference;
pub use repository::Repository;

use catalogue::{Entry, Origin, PackagedFile};
use endpoint::Hub;

/// Where the bytes of a model are.
#[derive(Debug, PartialEq)]
pub enum Source {
    /// A file (the first part of it, when it is split).
    Path(PathBuf),
    /// The model inside this crate.
    Embedded,
}

/// What a name means, whether or not the file is here yet.
#[derive(Debug, PartialEq)]
pub enum Named {
    /// Something on this machine.
    Path(PathBuf),
    /// A model of the catalogue.
    Catalogue(&'static Entry),
    /// A file on the hub.
    Hub(Reference),
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

/// What [`pull`] had to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It was brought here.
    Downloaded,
    /// It was here, and is what it should be.
    Kept,
    /// It is a path or inside this crate: there is nothing to bring.
    Local,
}

/// What the model inside this crate is called.
pub const EMBEDDED_NAME: &str = "stories15M";
/// The model inside this crate.
pub const EMBEDDED: &[u8] = include_bytes!("../../../models/stories15M-q8_0.gguf");

/// Says what a name means.
pub fn find(name: &str) -> Result<Named> {
    let path = Path::new(name);
    let is_folder = path.is_dir();
    // A folder that happens to be called like a model of the catalogue does not hide the model.
    if path.exists() && !is_folder {
        return Ok(Named::Path(path.to_path_buf()));
    }
    if let Some(reference) = name.strip_prefix("hf:") {
        return Ok(Named::Hub(reference.parse()?));
    }
    if let Some(entry) = catalogue::find(name) {
        return Ok(Named::Catalogue(entry));
    }
    let name = name.to_owned();
    Err(if is_folder {
        Error::Folder { name }
    } else {
        Error::Unknown { near: catalogue::near(&name), name }
    })
}

/// Where a model is, if it is here and whole.
pub fn locate(model: &Named, cache: &Cache) -> Result<Source> {
    match model {
        Named::Path(path) => Ok(Source::Path(path.clone())),
        Named::Catalogue(entry) => match &entry.origin {
            Origin::Embedded => Ok(Source::Embedded),
            Origin::Packages(file) => packaged(entry.name, file, cache).map(Source::Path),
        },
        Named::Hub(reference) => from_hub(reference, cache).map(Source::Path),
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

/// Brings a model here if it is not here yet.
pub fn pull(model: &Named, cache: &Cache, watch: Watch) -> Result<Pulled> {
    let here = |source| Pulled { source, bytes: None, sha256: None, outcome: Outcome::Local };
    let (bytes, sha256, outcome) = match model {
        Named::Path(path) => return Ok(here(Source::Path(path.clone()))),
        Named::Catalogue(Entry { origin: Origin::Embedded, .. }) => return Ok(here(Source::Embedded)),
        Named::Catalogue(Entry { name, origin: Origin::Packages(file), .. }) => {
            let _lock = cache.lock(watch)?;
            let outcome = packages::pull(name, file, cache, &packages::Programs::default(), watch)?;
            (file.bytes, Some(file.sha256.to_owned()), outcome)
        }
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

    #[test]
    fn names_mean_paths_then_hub_files_then_the_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.gguf");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(find(file.to_str().unwrap()).unwrap(), Named::Path(file));
        assert!(matches!(find("hf:a/b/c.gguf").unwrap(), Named::Hub(_)));
        assert!(
            matches!(find("SmolLM2-135M").unwrap(), Named::Catalogue(entry) if entry.name == "smollm2-135m")
        );
        let embedded = find(EMBEDDED_NAME).unwrap();
        assert_eq!(locate(&embedded, &Cache::at(folder.path())).unwrap(), Source::Embedded);
    }

    #[test]
    fn unknown_names_come_with_what_may_have_been_meant() {
        let near = |name: &str| match find(name) {
            Err(Error::Unknown { near, .. }) => near,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("smollm-135m"), ["smollm2-135m"]);
        assert!(near("/no/such.gguf").is_empty());
        let folder = tempfile::tempdir().unwrap();
        let message = find(folder.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(message.ends_with("is a folder: name the model file in it"));
    }

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
}
