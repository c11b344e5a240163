//! What sentence-transformers writes beside a model: how rows become one vector, and layers that follow.

use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::{Map, Value};

use gleed_gguf::shown;

use crate::error::{Result, malformed};
use crate::json;

/// The modules of a folder after its model.
#[derive(Default)]
pub struct Modules {
    /// How rows become a vector, as `pooling_type` numbers it.
    pub pooling: Option<u32>,
    /// Linear layers of the vector.
    pub dense: Vec<Dense>,
}

/// A linear layer of the vector.
pub struct Dense {
    /// Its folder.
    pub path: String,
    /// How many values it reads.
    pub inputs: u32,
    /// How many it gives.
    pub outputs: u32,
}

#[derive(Deserialize)]
struct DenseConfig {
    in_features: u32,
    out_features: u32,
    #[serde(default)]
    activation_function: String,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

/// Ways of pooling: as switches, by name, and by number.
const POOLING: [(&str, &str, u32); 3] = [
    ("pooling_mode_mean_tokens", "mean", 1),
    ("pooling_mode_cls_token", "cls", 2),
    ("pooling_mode_lasttoken", "lasttoken", 3),
];

impl Modules {
    /// Reads what `modules.json` names, if there is one.
    pub fn read(folder: &Path) -> Result<Modules> {
        let path = folder.join("modules.json");
        let file = path.display().to_string();
        let mut modules = Modules::default();
        for Module { kind, path } in json::read_if_there::<Vec<Module>>(&path)?.into_iter().flatten() {
            if !Path::new(&path).components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(malformed(&file, format!("{} is not in the folder", shown(&path))));
            }
            if kind.ends_with("Pooling") {
                modules.pooling = Some(pooling(&folder.join(path).join("config.json"))?);
            } else if kind.ends_with("Dense") {
                let config = folder.join(&path).join("config.json");
                let read: DenseConfig = json::read(&config)?;
                if !read.activation_function.ends_with("Identity") {
                    let what = "its activation_function is not Identity, which alone is known";
                    return Err(malformed(&config.display().to_string(), what));
                }
                modules.dense.push(Dense { path, inputs: read.in_features, outputs: read.out_features });
            }
        }
        Ok(modules)
    }
}

fn pooling(path: &Path) -> Result<u32> {
    let said: Map<String, Value> = json::read(path)?;
    let by_switch = POOLING.iter().find(|(switch, ..)| said.get(*switch) == Some(&Value::Bool(true)));
    let named = said.get("pooling_mode").and_then(Value::as_str);
    let found = by_switch.or_else(|| POOLING.iter().find(|(_, name, _)| named == Some(*name)));
    let what = "rows are pooled in a way that is not known; known: mean, cls, lasttoken";
    found.map(|(.., number)| *number).ok_or_else(|| malformed(&path.display().to_string(), what))
}
