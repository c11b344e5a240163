//! Getting models: what a name on the command line means, and where its file lies.
//!
//! A name is a path if something exists there, a hub file if it starts with `hf:`, and otherwise a name
//! of the [`catalogue`]. [`resolve`] answers with a file that is ready to be opened, [`pull`] brings it
//! here first.

pub mod cache;
pub mod catalogue;
pub mod hub;

mod address;
mod archive;
mod download;
mod packages;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::output::human_bytes;
use cache::Cache;
use catalogue::{Entry, Origin, PackagedFile};

/// Where the bytes of a model are.
#[derive(Debug, PartialEq)]
pub enum Source {
    /// A file (the first part of it, when it is split).
    Path(PathBuf),
    /// The model inside this binary.
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
    Hub(hub::Reference),
}

/// A model that is here now, and how it came to be.
pub struct Pulled {
    /// Where it is, exactly as [`resolve`] says.
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
    /// It is a path or inside this binary: there is nothing to bring.
    Local,
}

/// What the model inside this binary is called.
pub const EMBEDDED_NAME: &str = "stories15M";
/// The model inside this binary.
pub const EMBEDDED: &[u8] = include_bytes!("../../../../models/stories15M-q8_0.gguf");

/// Whether a word names a model rather than being, say, a prompt.
pub fn is_model(word: &str) -> bool {
    find(word).is_ok()
}

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
    if is_folder {
        bail!("{name} is a folder: name the model file in it");
    }
    let near = match &catalogue::near(name)[..] {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    bail!("no file or model named {name}: `gleed list` shows the known ones{near}")
}

/// The file (or the embedded model) that a name stands for, ready to be opened.
pub fn resolve(name: &str) -> Result<Source> {
    match find(name)? {
        Named::Path(path) => Ok(Source::Path(path)),
        Named::Catalogue(entry) => match &entry.origin {
            Origin::Embedded => Ok(Source::Embedded),
            Origin::Packages(file) => packaged(entry.name, file, &Cache::locate()?).map(Source::Path),
        },
        Named::Hub(reference) => from_hub(&reference, &Cache::locate()?).map(Source::Path),
    }
}

/// The file of a model of the catalogue, if it is in the cache.
fn packaged(name: &str, file: &PackagedFile, cache: &Cache) -> Result<PathBuf> {
    let path = cache.file(file.file);
    match std::fs::metadata(&path) {
        Ok(found) if found.len() == file.bytes => Ok(path),
        Ok(found) => bail!(
            "{} has {} bytes instead of {}: run `gleed pull {name}` to fetch it again",
            path.display(),
            found.len(),
            file.bytes
        ),
        Err(_) => {
            bail!("{name} is not downloaded yet: run `gleed pull {name}` ({})", human_bytes(file.bytes))
        }
    }
}

/// The first file of a model of the hub, if all its files are in the cache.
fn from_hub(reference: &hub::Reference, cache: &Cache) -> Result<PathBuf> {
    let parts: Vec<PathBuf> = reference.parts().iter().map(|part| cache.file(part.cache_path())).collect();
    match parts.iter().all(|part| part.is_file()) {
        // `parts` is never empty: a file is at least itself.
        true => Ok(parts[0].clone()),
        false => bail!("{reference} is not downloaded yet: run `gleed pull {reference}`"),
    }
}

/// Brings a model here if it is not here yet.
pub fn pull(name: &str) -> Result<Pulled> {
    let here = |source| Pulled { source, bytes: None, sha256: None, outcome: Outcome::Local };
    let (bytes, sha256, outcome) = match find(name)? {
        Named::Path(path) => return Ok(here(Source::Path(path))),
        Named::Catalogue(Entry { origin: Origin::Embedded, .. }) => return Ok(here(Source::Embedded)),
        Named::Catalogue(Entry { name, origin: Origin::Packages(file), .. }) => {
            let cache = Cache::locate()?;
            let _lock = cache.lock()?;
            let outcome = packages::pull(name, file, &cache, &packages::Programs::default())?;
            (file.bytes, Some(file.sha256.to_owned()), outcome)
        }
        Named::Hub(reference) => {
            let cache = Cache::locate()?;
            let _lock = cache.lock()?;
            let hub = hub::Hub::from_environment()?;
            let mut files = Vec::new();
            for part in reference.parts() {
                files.push(download::pull(&part, &cache, &hub)?);
            }
            let kept = files.iter().all(|file| file.outcome == Outcome::Kept);
            let sha256 = if let [only] = &files[..] { Some(only.sha256.clone()) } else { None };
            let outcome = if kept { Outcome::Kept } else { Outcome::Downloaded };
            (files.iter().map(|file| file.bytes).sum(), sha256, outcome)
        }
    };
    // Asking `resolve` makes what `pull` prints the very path that `run` will open.
    Ok(Pulled { source: resolve(name)?, bytes: Some(bytes), sha256, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_paths_then_hub_files_then_the_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.gguf");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(resolve(file.to_str().unwrap()).unwrap(), Source::Path(file));
        assert!(matches!(find("hf:a/b/c.gguf").unwrap(), Named::Hub(_)));
        assert!(
            matches!(find("SmolLM2-135M").unwrap(), Named::Catalogue(entry) if entry.name == "smollm2-135m")
        );
        assert_eq!(resolve("stories15M").unwrap(), Source::Embedded);
    }

    #[test]
    fn unknown_names_get_one_helpful_line() {
        let message = |name: &str| find(name).unwrap_err().to_string();
        assert_eq!(
            message("smollm-135m"),
            "no file or model named smollm-135m: `gleed list` shows the known ones; did you mean smollm2-135m?"
        );
        assert_eq!(
            message("/no/such.gguf"),
            "no file or model named /no/such.gguf: `gleed list` shows the known ones"
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(message(folder.path().to_str().unwrap()).ends_with("is a folder: name the model file in it"));
    }

    #[test]
    fn what_is_not_here_yet_says_how_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let Some(Entry { name, origin: Origin::Packages(file), .. }) = catalogue::find("smollm2-135m") else {
            panic!("the catalogue has changed")
        };
        assert_eq!(
            packaged(name, file, &cache).unwrap_err().to_string(),
            "smollm2-135m is not downloaded yet: run `gleed pull smollm2-135m` (98 MB)"
        );
        std::fs::write(cache.file(file.file), b"short").unwrap();
        let message = packaged(name, file, &cache).unwrap_err().to_string();
        assert!(
            message.ends_with(
                "has 5 bytes instead of 98362432: run `gleed pull smollm2-135m` to fetch it again"
            )
        );

        let parts: hub::Reference = "o/r/m-00001-of-00002.gguf".parse().unwrap();
        let [first, second] = [0, 1].map(|index| cache.file(parts.parts()[index].cache_path()));
        std::fs::create_dir_all(first.parent().unwrap()).unwrap();
        std::fs::write(&first, b"1").unwrap();
        assert_eq!(
            from_hub(&parts, &cache).unwrap_err().to_string(),
            "hf:o/r/m-00001-of-00002.gguf is not downloaded yet: run `gleed pull hf:o/r/m-00001-of-00002.gguf`"
        );
        std::fs::write(&second, b"2").unwrap();
        assert_eq!(from_hub(&parts, &cache).unwrap(), first);
    }
}
