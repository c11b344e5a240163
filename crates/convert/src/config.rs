//! What `config.json` says: typed look-ups under any of several names, with errors that name the key.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Result, malformed};
use crate::json;

/// A configuration. What it says about text stands at its top, also where the file has it in a part of its own.
pub struct Config {
    file: String,
    values: Map<String, Value>,
    /// How positions become angles: `rope_parameters`, or `rope_scaling` with its keys of old.
    rope: Map<String, Value>,
}

/// Names under which a part about text may stand.
const TEXT: [&str; 2] = ["text_config", "llm_config"];
const BASES: [&str; 5] =
    ["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
const LOCAL_BASES: [&str; 5] =
    ["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
const ROTARY_SHARES: [&str; 3] = ["partial_rotary_factor", "rope_pct", "rope_percent"];

impl Config {
    /// Reads the file of a folder.
    pub fn open(folder: &Path) -> Result<Config> {
        let path = folder.join("config.json");
        let file = path.display().to_string();
        if !path.is_file() {
            return Err(malformed(&file, "is missing: a checkpoint folder has one"));
        }
        match json::read(&path)? {
            Value::Object(values) => Ok(Config::new(file, values)),
            _ => Err(malformed(&file, "is not a JSON object")),
        }
    }

    fn new(file: String, mut values: Map<String, Value>) -> Config {
        for name in TEXT {
            if let Some(Value::Object(text)) = values.remove(name) {
                values.extend(text);
            }
        }
        values.retain(|_, value| !value.is_null());
        let rope = match values.get("rope_parameters").or_else(|| values.get("rope_scaling")) {
            Some(Value::Object(rope)) => rope.clone(),
            _ => Map::new(),
        };
        let mut config = Config { file, values, rope };
        config.complete_rope();
        config
    }

    /// What stands beside the parameters of rotation goes among them, unless they are split by kind of layer.
    fn complete_rope(&mut self) {
        if self.rope.contains_key("full_attention") || self.rope.contains_key("sliding_attention") {
            return;
        }
        if let Some(base) = self.value(&LOCAL_BASES).cloned() {
            let sliding = Map::from_iter([("rope_theta".to_string(), base)]);
            self.rope.insert("sliding_attention".to_string(), Value::Object(sliding));
        }
        let beside = [
            ("rope_theta", self.value(&BASES).cloned()),
            ("rope_type", self.rope.get("type").cloned()),
            ("partial_rotary_factor", self.value(&ROTARY_SHARES).cloned()),
            ("original_max_position_embeddings", self.value(&["original_max_position_embeddings"]).cloned()),
        ];
        for (key, value) in beside {
            if let Some(value) = value
                && !self.rope.contains_key(key)
            {
                self.rope.insert(key.to_string(), value);
            }
        }
    }

    /// An error about the file.
    pub fn wrong(&self, what: impl Into<String>) -> crate::Error {
        malformed(&self.file, what)
    }

    /// Gives a key a value where the file has none.
    pub fn set_default(&mut self, key: &str, value: impl Into<Value>) {
        if !self.values.contains_key(key) {
            self.values.insert(key.to_string(), value.into());
        }
    }

    /// Gives a key a value whatever the file says.
    pub fn replace(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(key.to_string(), value.into());
    }

    /// Gives a parameter of rotation a value where the file has none.
    pub fn set_rope_default(&mut self, key: &str, value: impl Into<Value>) {
        if self.rope(key).is_none() {
            let all = match self.rope.get_mut("full_attention") {
                Some(Value::Object(full)) => full,
                _ => &mut self.rope,
            };
            all.insert(key.to_string(), value.into());
        }
    }

    /// The names of the model's classes, the first of which says what it is.
    pub fn model(&self) -> Result<&str> {
        let names = self.values.get("architectures").and_then(Value::as_array);
        names
            .and_then(|names| names.first()?.as_str())
            .ok_or_else(|| self.wrong("key architectures is missing: it names the model's class"))
    }

    /// The value of the first of these keys that is there.
    pub fn value(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| self.values.get(*key))
    }

    /// A size, if one of these keys is there.
    pub fn size(&self, keys: &[&str]) -> Result<Option<u32>> {
        self.typed(self.value(keys), keys, "an integer from 0 to 4294967295", size)
    }

    /// A size that must be there.
    pub fn require_size(&self, keys: &[&str]) -> Result<u32> {
        self.size(keys)?.ok_or_else(|| self.missing(keys))
    }

    /// A number, if one of these keys is there.
    pub fn float(&self, keys: &[&str]) -> Result<Option<f64>> {
        self.typed(self.value(keys), keys, "a number", Value::as_f64)
    }

    /// A switch, if this key is there.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(self.value(&[key]), &[key], "true or false", Value::as_bool)
    }

    /// A text, if one of these keys is there.
    pub fn text(&self, keys: &[&str]) -> Result<Option<&str>> {
        self.typed(self.value(keys), keys, "a string", Value::as_str)
    }

    /// A list, if this key is there.
    pub fn list(&self, key: &str) -> Result<Option<&[Value]>> {
        self.typed(self.value(&[key]), &[key], "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A parameter of rotation, of layers that see everything.
    pub fn rope(&self, key: &str) -> Option<&Value> {
        let all = self.rope.get("full_attention").and_then(Value::as_object).unwrap_or(&self.rope);
        all.get(key).filter(|value| !value.is_null())
    }

    /// The kind of rotary scaling, in lower case; "default" where there is none.
    pub fn rope_type(&self) -> Result<String> {
        let kind = self.typed(self.rope("rope_type"), &["rope_type"], "a string", Value::as_str)?;
        Ok(kind.unwrap_or("default").to_lowercase())
    }

    /// A number among the parameters of rotation.
    pub fn rope_float(&self, key: &str) -> Result<Option<f64>> {
        self.typed(self.rope(key), &[key], "a number", Value::as_f64)
    }

    /// A size among the parameters of rotation.
    pub fn rope_size(&self, key: &str) -> Result<Option<u32>> {
        self.typed(self.rope(key), &[key], "an integer from 0 to 4294967295", size)
    }

    /// Numbers among the parameters of rotation.
    pub fn rope_floats(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.typed(self.rope(key), &[key], "a list of numbers", |value| {
            value.as_array()?.iter().map(|value| value.as_f64().map(|value| value as f32)).collect()
        })
    }

    /// A number among the parameters of rotation in layers that see a window.
    pub fn sliding_rope_float(&self, key: &str) -> Result<Option<f64>> {
        let sliding = self.rope.get("sliding_attention").and_then(|sliding| sliding.get(key));
        self.typed(sliding.filter(|value| !value.is_null()), &[key], "a number", Value::as_f64)
    }

    /// How many values a head of queries and keys has.
    pub fn head_size(&self) -> Result<u32> {
        if let Some(size) = self.size(&["head_dim"])? {
            return Ok(size);
        }
        let (width, heads) = (self.require_size(&["hidden_size", "n_embd"])?, self.heads()?);
        Ok(width / heads)
    }

    /// How many heads of queries there are, at least one.
    pub fn heads(&self) -> Result<u32> {
        let heads = self.require_size(&["num_attention_heads", "n_head", "n_heads"])?;
        if heads == 0 { Err(self.wrong("key num_attention_heads must not be 0")) } else { Ok(heads) }
    }

    /// How many heads of keys and values there are, at least one.
    pub fn kv_heads(&self) -> Result<u32> {
        match self.size(&["num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"])? {
            None => self.heads(),
            Some(0) => Err(self.wrong("key num_key_value_heads must not be 0")),
            Some(heads) => Ok(heads),
        }
    }

    /// How many numbers of positions are left out because texts are filled up: those up to the token's.
    pub fn padding(&self) -> Result<u32> {
        Ok(self.size(&["pad_token_id"])?.map_or(0, |number| number.saturating_add(1)))
    }

    /// How many layers there are: no model has a million.
    pub fn layers(&self) -> Result<u32> {
        let layers = self.require_size(&["num_hidden_layers", "n_layers", "n_layer", "num_layers"])?;
        if layers > 1_000_000 { Err(self.wrong(format!("{layers} layers are too many"))) } else { Ok(layers) }
    }

    /// The error for a key that must be there.
    pub fn missing(&self, keys: &[&str]) -> crate::Error {
        self.wrong(format!("key {} is missing", keys.join(" or ")))
    }

    fn typed<'a, T>(
        &self,
        value: Option<&'a Value>,
        keys: &[&str],
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = value else { return Ok(None) };
        convert(value)
            .map(Some)
            .ok_or_else(|| self.wrong(format!("key {} must be {expected}", keys.join(" or "))))
    }
}

fn size(value: &Value) -> Option<u32> {
    // Some files write whole numbers with a point.
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
    };
    value.as_u64().and_then(|number| u32::try_from(number).ok()).or_else(|| value.as_f64().and_then(whole))
}
