//! What the cache holds of the hub.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::partial::unfinished;
use crate::reference::{FOLDER, Reference};
use crate::repository::Repository;

/// A model of the hub of which something is in the cache.
#[derive(Debug)]
pub struct Held {
    /// What to type.
    pub reference: Reference,
    /// Its file, or the first part of it.
    pub path: PathBuf,
    /// Bytes that are here, of unfinished files too.
    pub bytes: u64,
    /// Whether all parts are here and finished.
    pub complete: bool,
}

/// The hub's models in the cache, sorted by name.
pub fn held(cache: &Cache) -> Vec<Held> {
    let root = cache.file(FOLDER);
    let size = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
    let mut found: Vec<Held> = Vec::new();
    for path in files_below(&root) {
        // Unfinished files count for what they will be.
        let path =
            if path.extension().is_some_and(|e| e == "partial") { path.with_extension("") } else { path };
        let steps: Option<Vec<&str>> =
            path.strip_prefix(&root).ok().and_then(|path| path.iter().map(|step| step.to_str()).collect());
        let Some([owner, repository, revision, file @ ..]) = steps.as_deref() else { continue };
        let Some(reference) = Repository::new(owner, &format!("{repository}@{revision}"))
            .and_then(|repository| Reference::new(repository, &file.join("/")))
        else {
            continue;
        };
        let parts = reference.parts();
        if found.iter().any(|other| other.reference == parts[0]) {
            continue;
        }
        let files: Vec<PathBuf> = parts.iter().map(|part| cache.file(part.cache_path())).collect();
        let finished = files.iter().filter_map(|file| size(file));
        let partial = files.iter().filter_map(|file| size(&unfinished(file)[0]));
        found.push(Held {
            bytes: finished.clone().chain(partial).sum(),
            complete: finished.count() == files.len(),
            path: files[0].clone(),
            reference: parts[0].clone(),
        });
    }
    found.sort_by_key(|model| model.reference.to_string());
    found
}

/// Files at any depth below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flatten().flat_map(|entry| below(entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn the_cache_lists_whole_and_broken_models() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        assert!(held(&cache).is_empty());
        for text in [
            "o/r/a.gguf",
            "o/r@x/b/c-00001-of-00002.gguf",
            "o/r@x/b/c-00002-of-00002.gguf",
            "o/r/d-00002-of-00002.gguf",
        ] {
            let path = cache.file(reference(text).cache_path());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"yes").unwrap();
        }
        for name in ["hub/o/r/main/e.gguf.partial", "hub/o/r/main/a.gguf.partial", "hub/o/r/main/a.txt"] {
            fs::write(cache.file(name), b"1234").unwrap();
        }
        let found: Vec<(String, u64, bool)> =
            held(&cache).iter().map(|m| (m.reference.to_string(), m.bytes, m.complete)).collect();
        let expected = [
            ("hf:o/r/a.gguf".to_owned(), 7, true),
            ("hf:o/r/d-00001-of-00002.gguf".to_owned(), 3, false),
            ("hf:o/r/e.gguf".to_owned(), 4, false),
            ("hf:o/r@x/b/c-00001-of-00002.gguf".to_owned(), 6, true),
        ];
        assert_eq!(found, expected);
    }
}
