//! What the cache holds of the hub.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::reference::{FOLDER, Reference, is_model_file};

/// A model of the hub of which at least one file is in the cache.
pub struct Held {
    /// What to type.
    pub reference: Reference,
    /// Its file, or the first part of it.
    pub path: PathBuf,
    /// Bytes of the parts that are here.
    pub bytes: u64,
    /// Whether all parts are here.
    pub complete: bool,
}

/// The hub's models in the cache, sorted by name.
pub fn held(cache: &Cache) -> Vec<Held> {
    let root = cache.file(FOLDER);
    let mut found: Vec<Held> = Vec::new();
    for path in files_below(&root) {
        let steps: Option<Vec<&str>> =
            path.strip_prefix(&root).ok().and_then(|path| path.iter().map(|step| step.to_str()).collect());
        let Some([owner, repository, revision, file @ ..]) = steps.as_deref() else { continue };
        let Ok(reference) =
            format!("{owner}/{repository}@{revision}/{}", file.join("/")).parse::<Reference>()
        else {
            continue;
        };
        let parts = reference.parts();
        if found.iter().any(|other| other.reference == parts[0]) {
            continue;
        }
        let sizes =
            parts.iter().map(|part| fs::metadata(cache.file(part.cache_path())).map(|file| file.len()));
        let sizes: Vec<u64> = sizes.flatten().collect();
        found.push(Held {
            path: cache.file(parts[0].cache_path()),
            bytes: sizes.iter().sum(),
            complete: sizes.len() == parts.len(),
            reference: parts[0].clone(),
        });
    }
    found.sort_by_key(|model| model.reference.to_string());
    found
}

/// Model files at any depth below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    let files = entries.flatten().flat_map(|entry| below(entry.path()));
    files.filter(|path| is_model_file(path)).collect()
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
            fs::write(path.with_extension("gguf.partial"), b"no").unwrap();
            fs::write(path, b"yes").unwrap();
        }
        let found: Vec<(String, u64, bool)> =
            held(&cache).iter().map(|m| (m.reference.to_string(), m.bytes, m.complete)).collect();
        let expected = [
            ("hf:o/r/a.gguf".to_owned(), 3, true),
            ("hf:o/r/d-00001-of-00002.gguf".to_owned(), 3, false),
            ("hf:o/r@x/b/c-00001-of-00002.gguf".to_owned(), 6, true),
        ];
        assert_eq!(found, expected);
    }
}
