//! Files on the model hub: what `hf:owner/repository[@revision]/path/file.gguf` means, and where it lies in
//! the cache.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::repository::{Repository, is_sound_step};

/// The folder in the cache with the hub's files.
pub(crate) const FOLDER: &str = "hub";

/// A file on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    repository: Repository,
    file: String,
}

impl Reference {
    /// The file at this path of a repository, if it can be one.
    pub(crate) fn new(repository: Repository, file: &str) -> Option<Self> {
        let sound = file.split('/').all(is_sound_step) && is_model_file(Path::new(file));
        sound.then(|| Self { repository, file: file.to_owned() })
    }

    /// All files of the model: this one, or every part when it is one of a split file.
    pub fn parts(&self) -> Vec<Reference> {
        let Some((stem, _, count)) = split_name(&self.file) else { return vec![self.clone()] };
        let part =
            |index| Reference { file: format!("{stem}-{index:05}-of-{count:05}.gguf"), ..self.clone() };
        (1..=count).map(part).collect()
    }

    /// Where the file lies below the cache's root.
    pub fn cache_path(&self) -> PathBuf {
        let mut path = PathBuf::from_iter([
            FOLDER,
            self.repository.owner(),
            self.repository.name(),
            self.repository.revision(),
        ]);
        path.extend(self.file.split('/'));
        path
    }

    /// Where it is.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The path inside the repository.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// Reads what follows `hf:`.
    fn from_str(text: &str) -> Result<Self> {
        let refused = |what| Error::Reference { text: text.to_owned(), what };
        let mut steps = text.splitn(3, '/');
        let (Some(owner), Some(repository), Some(file)) = (steps.next(), steps.next(), steps.next()) else {
            return Err(refused("is incomplete"));
        };
        let repository = Repository::new(owner, repository).filter(|_| file.split('/').all(is_sound_step));
        let repository = repository.ok_or_else(|| refused("has an empty or odd step"))?;
        if !is_model_file(Path::new(file)) {
            return Err(refused("does not name a .gguf file"));
        }
        Ok(Self { repository, file: file.to_owned() })
    }
}

impl Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "hf:{}{}/{}", self.repository, self.repository.suffix(), self.file)
    }
}

/// Whether a file is a model, by its name.
fn is_model_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn references_become_paths() {
        let plain = reference("owner/repo/sub folder/é.gguf");
        assert_eq!(plain.cache_path(), Path::new("hub/owner/repo/main/sub folder/é.gguf"));
        assert_eq!(plain.to_string(), "hf:owner/repo/sub folder/é.gguf");
        let pinned = reference("owner/repo@v1.0/m.gguf");
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
}
