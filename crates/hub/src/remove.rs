//! Removing models from the cache, and nothing else.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::catalogue::{Entry, Origin};
use crate::error::{Error, Result};
use crate::event::Watch;
use crate::held::held;
use crate::name::Named;
use crate::partial::unfinished;

/// The files that [`remove`] would remove, finished and unfinished; never none.
pub fn removable(model: &Named, cache: &Cache) -> Result<Vec<PathBuf>> {
    let absent = |name: String| Error::Absent { name };
    let (name, files) = match model {
        Named::Path(path) => return Err(Error::NotInCache { name: path.display().to_string() }),
        Named::Catalogue(Entry { name, origin: Origin::Embedded, .. }) => {
            return Err(Error::BuiltIn { name: (*name).to_owned() });
        }
        Named::Catalogue(Entry { name, origin: Origin::Packages(file), .. }) => {
            ((*name).to_owned(), vec![cache.file(file.file)])
        }
        Named::Hub(reference) => {
            let files = reference.parts().iter().map(|part| cache.file(part.cache_path())).collect();
            (reference.to_string(), files)
        }
        Named::Selection(selection) => {
            let held = held(cache);
            let here = held.iter().filter(|model| model.reference.repository() == selection.repository());
            let mut models = selection.matching(here.map(|model| model.reference.file()));
            return match models.len() {
                0 => Err(absent(selection.to_string())),
                1 => removable(&Named::Hub(models.remove(0)), cache),
                _ => Err(selection.ambiguous(&models)),
            };
        }
    };
    let all = files.into_iter().flat_map(|file| {
        let [partial, note] = unfinished(&file);
        [file, partial, note]
    });
    // A link that leads nowhere takes room under its name all the same.
    let found: Vec<PathBuf> = all.filter(|file| fs::symlink_metadata(file).is_ok()).collect();
    if found.is_empty() { Err(absent(name)) } else { Ok(found) }
}

/// Removes a model from the cache, with what unfinished pulls left of it, and gives how many bytes it had.
pub fn remove(model: &Named, cache: &Cache, watch: Watch) -> Result<u64> {
    removable(model, cache)?;
    let _lock = cache.lock(watch)?;
    let files = removable(model, cache)?;
    let root = fs::canonicalize(cache.root()).map_err(Error::io("find", cache.root()))?;
    for file in &files {
        // A folder of the cache may be a link to somewhere else.
        let folder = file.parent().unwrap_or(file);
        let real = fs::canonicalize(folder).map_err(Error::io("find", folder))?;
        if !real.starts_with(&root) {
            return Err(Error::NotInCache { name: file.display().to_string() });
        }
    }
    let mut bytes = 0;
    for file in &files {
        let size = fs::symlink_metadata(file).map_or(0, |found| found.len());
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", file)(error));
            }
            _ => bytes += size,
        }
        remove_empty_folders(file, cache.root());
    }
    Ok(bytes)
}

/// Removes the folders above a file, up to the cache's own, as long as nothing is in them.
fn remove_empty_folders(file: &Path, root: &Path) {
    let folders = file.ancestors().skip(1).take_while(|folder| *folder != root && folder.starts_with(root));
    for folder in folders {
        // Not empty is the ordinary end of it.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::find_model;

    fn put(cache: &Cache, names: &[&str]) {
        for name in names {
            let path = cache.file(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"12345").unwrap();
        }
    }

    fn removed(name: &str, cache: &Cache) -> Result<u64, String> {
        remove(&find_model(name).unwrap(), cache, &|_| {}).map_err(|error| error.to_string())
    }

    #[test]
    fn all_of_a_model_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        put(
            &cache,
            &["hub/o/r/main/q/m-00001-of-00002.gguf", "hub/o/r/main/q/m-00002-of-00002.gguf.partial"],
        );
        put(
            &cache,
            &["hub/o/r/main/q/m-00002-of-00002.gguf.partial.json", "hub/o/other/main/m.gguf", "history"],
        );
        assert_eq!(removed("hf:o/r/q/m-00001-of-00002.gguf", &cache), Ok(15));
        assert!(!cache.file("hub/o/r").exists());
        assert!(cache.file("hub/o/other/main/m.gguf").exists() && cache.file("history").exists());
        let message = removed("hf:o/r/q/m-00001-of-00002.gguf", &cache).unwrap_err();
        assert_eq!(message, "hf:o/r/q/m-00001-of-00002.gguf is not downloaded yet");
    }

    #[test]
    fn a_repository_is_removed_by_name_if_it_is_one_model() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        put(&cache, &["hub/o/r/main/m-Q4_0.gguf", "hub/o/r/main/m-Q8_0.gguf", "hub/o/r/v2/m-Q6_K.gguf"]);
        let message = removed("hf:o/r", &cache).unwrap_err();
        assert!(message.contains("m-Q4_0.gguf, m-Q8_0.gguf"), "{message}");
        assert_eq!(removed("hf:o/r:Q6_K", &cache).unwrap_err(), "hf:o/r:Q6_K is not downloaded yet");
        assert_eq!(removed("hf:o/r:Q8_0", &cache), Ok(5));
        assert_eq!(removed("hf:o/r", &cache), Ok(5));
        assert_eq!(removed("hf:o/r@v2", &cache), Ok(5));
        assert!(!cache.file("hub").exists());
    }

    #[cfg(unix)]
    #[test]
    fn files_behind_a_link_out_of_the_cache_stay() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        put(&Cache::at(elsewhere.path()), &["r/main/m.gguf"]);
        fs::create_dir(cache.file("hub")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), cache.file("hub/o")).unwrap();
        assert!(removed("hf:o/r/m.gguf", &cache).unwrap_err().contains("is not in the cache"));
        assert!(elsewhere.path().join("r/main/m.gguf").exists());
        // A link in the cache itself goes, not what it leads to.
        let target = elsewhere.path().join("r/main/m.gguf");
        std::os::unix::fs::symlink(&target, cache.file("SmolLM2-135M-Instruct.Q4_1.gguf")).unwrap();
        assert!(removed("smollm2-135m", &cache).is_ok());
        assert!(target.exists() && !cache.file("SmolLM2-135M-Instruct.Q4_1.gguf").exists());
    }
}
