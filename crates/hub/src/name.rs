//! What a name means: a path, a model of the catalogue, or one on the hub.

use std::path::{Path, PathBuf};

use crate::catalogue::{self, Entry};
use crate::error::{Error, Result};
use crate::reference::Reference;
use crate::selection::Selection;

/// What a name means, whether or not the model is here yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// Something on this machine.
    Path(PathBuf),
    /// A model of the catalogue.
    Catalogue(&'static Entry),
    /// A file on the hub.
    Hub(Reference),
    /// A repository on the hub, of which a file is to be chosen.
    Selection(Selection),
}

/// Says what a name means: a path if something exists there, else what [`find_model`] says.
pub fn find(name: &str) -> Result<Named> {
    let path = Path::new(name);
    let is_folder = path.is_dir();
    // A folder that happens to be called like a model of the catalogue does not hide the model, unless it is one.
    let is_checkpoint = is_folder && path.join("config.json").is_file();
    if path.exists() && (!is_folder || is_checkpoint) {
        return Ok(Named::Path(path.to_path_buf()));
    }
    match find_model(name) {
        Err(Error::Unknown { name, .. }) if is_folder => Err(Error::Folder { name }),
        found => found,
    }
}

/// Says what a name means that is no path: a model on the hub if it starts with `hf:`, else one of the
/// catalogue.
pub fn find_model(name: &str) -> Result<Named> {
    if let Some(text) = name.strip_prefix("hf:") {
        // `owner/repository` and a format; a path inside the repository makes it a file.
        return match text.matches('/').count() {
            0 | 1 => text.parse().map(Named::Selection),
            _ => text.parse().map(Named::Hub),
        };
    }
    let unknown = || Error::Unknown { name: name.to_owned(), near: catalogue::near(name) };
    catalogue::find(name).map(Named::Catalogue).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_paths_then_models_of_the_hub_then_the_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.gguf");
        std::fs::write(&file, b"x").unwrap();
        assert!(find_model(file.to_str().unwrap()).is_err());
        assert_eq!(find(file.to_str().unwrap()).unwrap(), Named::Path(file));
        assert!(matches!(find("hf:a/b/c.gguf").unwrap(), Named::Hub(_)));
        assert!(matches!(find("hf:a/b").unwrap(), Named::Selection(_)));
        assert!(matches!(find("hf:a/b:Q8_0").unwrap(), Named::Selection(_)));
        assert!(
            matches!(find("SmolLM2-135M").unwrap(), Named::Catalogue(entry) if entry.name == "smollm2-135m")
        );
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
        assert!(
            message
                .ends_with("is a folder without a config.json, so no checkpoint: name the model file in it")
        );
        std::fs::write(folder.path().join("config.json"), b"{}").unwrap();
        assert_eq!(find(folder.path().to_str().unwrap()).unwrap(), Named::Path(folder.path().to_path_buf()));
    }
}
