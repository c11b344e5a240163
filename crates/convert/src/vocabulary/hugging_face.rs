//! What `tokenizer.json` and `tokenizer_config.json` say, as far as it matters here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::json;

/// `tokenizer.json`.
pub struct TokenizerJson {
    /// Where it is.
    pub file: String,
    pub model: Model,
    pub added: Vec<Added>,
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    pub post_processor: Value,
}

/// How text becomes tokens.
pub enum Model {
    Bpe(Bpe),
    /// By the longest pieces of words: numbers by token.
    WordPiece(BTreeMap<String, u64>),
    /// By the best sum of scores.
    Unigram(Unigram),
    /// Another way.
    Other,
}

/// Tokens and their scores.
#[derive(Deserialize)]
pub struct Unigram {
    pub vocab: Vec<(String, f64)>,
    /// The token of what has none.
    #[serde(default)]
    pub unk_id: Option<u64>,
}

/// Byte pairs, of bytes or of characters.
#[derive(Deserialize)]
pub struct Bpe {
    pub vocab: BTreeMap<String, u64>,
    #[serde(default)]
    pub merges: Vec<Merge>,
    /// Whether characters without a token become bytes: SentencePiece's way.
    #[serde(default)]
    pub byte_fallback: bool,
    /// Whether a word that is a token is taken whole.
    #[serde(default)]
    pub ignore_merges: bool,
}

/// A merge, written in one of two ways.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Merge {
    Joined(String),
    Pair(String, String),
}

/// A token beside those of the model.
#[derive(Clone, Deserialize)]
pub struct Added {
    #[serde(default)]
    pub id: u64,
    pub content: String,
    #[serde(default)]
    pub special: bool,
}

#[derive(Deserialize)]
struct File {
    model: Value,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
}

impl TokenizerJson {
    /// Reads the file of a folder, if there is one.
    pub fn open(folder: &Path) -> Result<Option<TokenizerJson>> {
        let path = folder.join("tokenizer.json");
        let Some(read) = json::read_if_there::<File>(&path)? else { return Ok(None) };
        let file = path.display().to_string();
        // Old files leave the type out.
        let kind = read.model.get("type").and_then(Value::as_str);
        let is_bpe = kind == Some("BPE") || kind.is_none() && read.model.get("merges").is_some();
        let invalid = |error| crate::error::malformed(&file, format!("its model is not valid: {error}"));
        let model = match kind {
            _ if is_bpe => Model::Bpe(serde_json::from_value(read.model).map_err(invalid)?),
            Some("WordPiece") => Model::WordPiece(
                serde_json::from_value(read.model.get("vocab").cloned().unwrap_or_default())
                    .map_err(invalid)?,
            ),
            Some("Unigram") => Model::Unigram(serde_json::from_value(read.model).map_err(invalid)?),
            _ => Model::Other,
        };
        let File { added_tokens: added, normalizer, pre_tokenizer, post_processor, .. } = read;
        Ok(Some(TokenizerJson { file, model, added, normalizer, pre_tokenizer, post_processor }))
    }

    /// Whether SentencePiece's space is put in front of a text.
    pub fn adds_space(&self) -> bool {
        let prepends = steps(&self.normalizer, "normalizers").iter().any(|step| kind(step) == "Prepend");
        let metaspace =
            steps(&self.pre_tokenizer, "pretokenizers").into_iter().find(|step| kind(step) == "Metaspace");
        let scheme = |step: &Value| match step.get("prepend_scheme").and_then(Value::as_str) {
            Some(scheme) => scheme != "never",
            None => step.get("add_prefix_space").and_then(Value::as_bool).unwrap_or(true),
        };
        prepends || metaspace.is_some_and(scheme)
    }
}

/// The steps of a sequence, or the one step that there is.
pub fn steps<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match value.get(list).and_then(Value::as_array) {
        Some(steps) => steps.iter().collect(),
        None if value.is_object() => vec![value],
        None => Vec::new(),
    }
}

/// The type of a step.
pub fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// `tokenizer_config.json`, empty where there is none.
#[derive(Default, Deserialize)]
pub struct TokenizerConfig {
    #[serde(default)]
    pub add_prefix_space: Option<bool>,
    #[serde(default)]
    pub added_tokens_decoder: BTreeMap<String, Added>,
    #[serde(default)]
    chat_template: Option<Value>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
    /// Whether the file is there.
    #[serde(skip)]
    pub is_there: bool,
}

impl TokenizerConfig {
    /// Reads the file of a folder.
    pub fn open(folder: &Path) -> Result<TokenizerConfig> {
        let read = json::read_if_there(&folder.join("tokenizer_config.json"))?;
        let is_there = read.is_some();
        Ok(TokenizerConfig { is_there, ..read.unwrap_or_default() })
    }

    /// Tokens that it adds, with their numbers.
    pub fn added(&self) -> impl Iterator<Item = Added> {
        self.added_tokens_decoder
            .iter()
            .filter_map(|(id, added)| Some(Added { id: id.parse().ok()?, ..added.clone() }))
    }

    /// The text of a token with a role: as a string, or as an object with its content.
    pub fn token(&self, role: &str) -> Option<&str> {
        let entry = self.others.get(&format!("{role}_token"))?;
        entry.as_str().or_else(|| entry.get("content")?.as_str())
    }

    /// Chat templates by name.
    pub fn templates(&self, folder: &Path) -> Result<Vec<(String, String)>> {
        let named = |value: &Value| -> Vec<(String, String)> {
            match value {
                Value::String(template) => vec![("default".to_string(), template.clone())],
                Value::Array(list) => list
                    .iter()
                    .filter_map(|entry| {
                        Some((
                            entry.get("name")?.as_str()?.to_string(),
                            entry.get("template")?.as_str()?.to_string(),
                        ))
                    })
                    .collect(),
                _ => Vec::new(),
            }
        };
        if let Some(template) = &self.chat_template {
            return Ok(named(template));
        }
        let (jinja, object) = (folder.join("chat_template.jinja"), folder.join("chat_template.json"));
        if jinja.is_file() {
            return Ok(vec![("default".to_string(), json::text(&jinja)?)]);
        }
        let object: Option<Map<String, Value>> = json::read_if_there(&object)?;
        Ok(object.and_then(|object| object.get("chat_template").map(named)).unwrap_or_default())
    }
}
