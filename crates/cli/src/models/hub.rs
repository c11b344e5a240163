//! Files on the model hub: what `hf:owner/repository[@revision]/path/file.gguf` means, where the hub is,
//! and where its files lie in the cache.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use super::cache::{Cache, is_model_file};

/// The hub that `HF_ENDPOINT` may replace.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// The revision that is meant when none is named.
const DEFAULT_REVISION: &str = "main";

/// The folder in the cache with the hub's files.
const FOLDER: &str = "hub";

/// A hub and the right to read from it.
pub struct Hub {
    /// Its address, without a slash at the end.
    pub endpoint: String,
    /// What to show it, and nobody else.
    pub token: Option<String>,
}

impl Hub {
    /// The hub that `HF_ENDPOINT` and `HF_TOKEN` describe.
    pub fn from_environment() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().map(|value| value.trim().to_owned());
        let endpoint = variable("HF_ENDPOINT").filter(|value| !value.is_empty());
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        ensure!(
            endpoint.starts_with("https://") || endpoint.starts_with("http://"),
            "HF_ENDPOINT must start with https:// or http://, but is {endpoint}"
        );
        let token = variable("HF_TOKEN").filter(|value| !value.is_empty());
        if let Some(token) = &token {
            ensure!(token.bytes().all(|byte| byte.is_ascii_graphic()), "HF_TOKEN holds odd characters");
        }
        Ok(Self { endpoint: endpoint.trim_end_matches('/').to_owned(), token })
    }

    /// The address of a file.
    pub fn url(&self, reference: &Reference) -> String {
        let Reference { owner, repository, revision, file } = reference;
        let path = [owner, repository, "resolve", revision].into_iter().chain(file.split('/'));
        path.fold(self.endpoint.clone(), |url, step| url + "/" + &percent_encoded(step))
    }
}

/// A file on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    owner: String,
    repository: String,
    revision: String,
    file: String,
}

impl Reference {
    /// All files of the model: this one, or every part when it is one of a split file.
    pub fn parts(&self) -> Vec<Reference> {
        let Some((stem, _, count)) = split_name(&self.file) else { return vec![self.clone()] };
        let part =
            |index| Reference { file: format!("{stem}-{index:05}-of-{count:05}.gguf"), ..self.clone() };
        (1..=count).map(part).collect()
    }

    /// Where the file lies below the cache's root.
    pub fn cache_path(&self) -> PathBuf {
        let mut path = PathBuf::from_iter([FOLDER, &self.owner, &self.repository, &self.revision]);
        path.extend(self.file.split('/'));
        path
    }

    /// `owner/repository`, for messages.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }

    /// The revision, for messages.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The path inside the repository.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl FromStr for Reference {
    type Err = anyhow::Error;

    /// Reads what follows `hf:`.
    fn from_str(text: &str) -> Result<Self> {
        let mut steps = text.splitn(3, '/');
        let (Some(owner), Some(repository), Some(file)) = (steps.next(), steps.next(), steps.next()) else {
            bail!("hf:{text} is incomplete: write hf:owner/repository/file.gguf");
        };
        let (repository, revision) = repository.split_once('@').unwrap_or((repository, DEFAULT_REVISION));
        // Every step becomes a folder of the cache, on any platform.
        for step in [owner, repository, revision].into_iter().chain(file.split('/')) {
            let odd = |character: char| character.is_control() || r#"\:*?"<>|"#.contains(character);
            ensure!(
                !matches!(step, "" | "." | "..") && !step.contains(odd),
                "hf:{text} has an empty or odd step: write hf:owner/repository/file.gguf"
            );
        }
        ensure!(is_model_file(Path::new(file)), "hf:{text} does not name a .gguf file");
        let [owner, repository, revision, file] = [owner, repository, revision, file].map(str::to_owned);
        Ok(Self { owner, repository, revision, file })
    }
}

impl Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, repository, revision, file } = self;
        match revision.as_str() {
            DEFAULT_REVISION => write!(formatter, "hf:{owner}/{repository}/{file}"),
            revision => write!(formatter, "hf:{owner}/{repository}@{revision}/{file}"),
        }
    }
}

/// A model of the hub of which at least one file is in the cache.
pub struct Cached {
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
pub fn cached(cache: &Cache) -> Vec<Cached> {
    let root = cache.file(FOLDER);
    let mut found: Vec<Cached> = Vec::new();
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
        found.push(Cached {
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

/// The stem, index and count of a name like `stem-00001-of-00003.gguf`.
fn split_name(file: &str) -> Option<(&str, u32, u32)> {
    let rest = file.strip_suffix(".gguf")?;
    let (rest, count) = rest.rsplit_once("-of-")?;
    let (stem, index) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        let well_formed = digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if well_formed { digits.parse().ok() } else { None }
    };
    let (index, count) = (number(index)?, number(count)?);
    (1..=count).contains(&index).then_some((stem, index, count))
}

/// One step of a path with everything but unreserved characters escaped.
fn percent_encoded(step: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    step.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn references_become_addresses_and_paths() {
        let hub = Hub { endpoint: "http://hub/mirror".to_owned(), token: None };
        let plain = reference("owner/repo/sub folder/é.gguf");
        assert_eq!(hub.url(&plain), "http://hub/mirror/owner/repo/resolve/main/sub%20folder/%C3%A9.gguf");
        assert_eq!(plain.cache_path(), Path::new("hub/owner/repo/main/sub folder/é.gguf"));
        assert_eq!(plain.to_string(), "hf:owner/repo/sub folder/é.gguf");
        let pinned = reference("owner/repo@v1.0/m.gguf");
        assert_eq!(hub.url(&pinned), "http://hub/mirror/owner/repo/resolve/v1.0/m.gguf");
        assert_eq!(pinned.cache_path(), Path::new("hub/owner/repo/v1.0/m.gguf"));
        assert_eq!(pinned.to_string(), "hf:owner/repo@v1.0/m.gguf");
    }

    #[test]
    fn odd_references_are_refused() {
        for text in [
            "",
            "owner",
            "owner/repo",
            "owner/repo/",
            "owner//m.gguf",
            "owner/repo@/m.gguf",
            "owner/repo/../m.gguf",
            "../repo/m.gguf",
            "owner/repo/a\\m.gguf",
            "owner/repo/C:m.gguf",
            "owner/repo/m.safetensors",
            "owner/repo/a\nb.gguf",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn split_files_have_parts() {
        let parts = reference("o/r/q4/m-00002-of-00003.gguf").parts();
        let names: Vec<&str> = parts.iter().map(Reference::file).collect();
        assert_eq!(
            names,
            ["q4/m-00001-of-00003.gguf", "q4/m-00002-of-00003.gguf", "q4/m-00003-of-00003.gguf"]
        );
        for single in
            ["m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-1-of-3.gguf", "m-of-x.gguf"]
        {
            let only = reference(&format!("o/r/{single}"));
            assert_eq!(only.parts(), std::slice::from_ref(&only));
        }
    }

    #[test]
    fn the_cache_lists_whole_and_broken_models() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        assert!(cached(&cache).is_empty());
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
            cached(&cache).iter().map(|m| (m.reference.to_string(), m.bytes, m.complete)).collect();
        let expected = [
            ("hf:o/r/a.gguf".to_owned(), 3, true),
            ("hf:o/r/d-00001-of-00002.gguf".to_owned(), 3, false),
            ("hf:o/r@x/b/c-00001-of-00002.gguf".to_owned(), 6, true),
        ];
        assert_eq!(found, expected);
    }
}
