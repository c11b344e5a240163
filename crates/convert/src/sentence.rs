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
    /// Folders of linear layers of the vector.
    pub dense: Vec<String>,
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
                modules.dense.push(path);
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
