//! All tensors of a folder: one file, or the files that `model.safetensors.index.json` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use gleed_gguf::{Bytes, shown};
use serde::Deserialize;

use crate::error::{Result, malformed};
use crate::json;
use crate::safetensors::{File, Tensor};

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// The tensors of a folder and the files that hold them.
pub struct Shards {
    /// The files in order.
    pub files: Vec<(PathBuf, Arc<Bytes>)>,
    /// All tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Shards {
    /// Opens all files of a folder.
    pub fn open(folder: &Path) -> Result<Shards> {
        let index_path = folder.join(INDEX);
        let index: Option<Index> = if index_path.is_file() { Some(json::read(&index_path)?) } else { None };
        let name = index_path.display().to_string();
        let names: BTreeSet<&str> = match &index {
            Some(index) => index.weight_map.values().map(String::as_str).collect(),
            None => BTreeSet::from([SINGLE]),
        };
        let mut shards = Shards { files: Vec::new(), tensors: BTreeMap::new() };
        for file in names {
            shards.add(folder, file, &name)?;
        }
        let missing = index
            .iter()
            .flat_map(|index| &index.weight_map)
            .find(|(tensor, _)| !shards.tensors.contains_key(*tensor));
        if let Some((tensor, file)) = missing {
            let what =
                format!("tensor {} is missing in {}; download that file again", shown(tensor), shown(file));
            return Err(malformed(&name, what));
        }
        Ok(shards)
    }

    /// Opens the weights of a module in a folder of its own, whose name its tensors get in front.
    pub fn add_module(&mut self, folder: &Path, module: &str) -> Result<()> {
        let path = folder.join(module).join(SINGLE);
        let File { path, bytes, tensors } = File::open(&path, self.files.len())?;
        self.tensors.extend(tensors.into_iter().map(|(name, tensor)| (format!("{module}.{name}"), tensor)));
        self.files.push((path, bytes));
        Ok(())
    }

    /// Opens one file more; `index` is what named it.
    fn add(&mut self, folder: &Path, file: &str, index: &str) -> Result<()> {
        // A name that leads out of the folder is none that a checkpoint has.
        if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(malformed(index, format!("{} is not a file of the folder", shown(file))));
        }
        let path = folder.join(file);
        if !path.is_file() {
            let what = match file {
                SINGLE => format!("has no {SINGLE} and no {INDEX}: only weights in safetensors are read"),
                _ => format!("{} is missing; download it too", shown(file)),
            };
            return Err(malformed(&folder.display().to_string(), what));
        }
        let File { path, bytes, tensors } = File::open(&path, self.files.len())?;
        for (name, tensor) in tensors {
            if self.tensors.contains_key(&name) {
                let what = format!("tensor {} is in two files of the folder", shown(&name));
                return Err(malformed(&path.display().to_string(), what));
            }
            self.tensors.insert(name, tensor);
        }
        self.files.push((path, bytes));
        Ok(())
    }
}
